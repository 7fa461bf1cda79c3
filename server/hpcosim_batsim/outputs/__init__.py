"""Batsim's output files.

Each module imports only modules above it:

    model           types of a run's results in Batsim's terms
    host_changes    hosts of each job, and state changes of hosts
    energy          energy and pstates over time
    outcome         result of a run in Batsim's terms
    unavailability  states of unavailable hosts
    sharing         hosts that run several jobs at the same time
    results         result of a run of a Batsim scheduler
    summary         columns of `PREFIX_schedule.csv`
    csv_files       content of the files
"""
