"""Batsim's output files.

Each module imports only modules above it:

    hosts        which hosts each job had, and what each host was doing over time
    energy       energy and power states over time
    outcome      the result of a run in Batsim's terms
    unavailable  hosts that became unavailable
    sharing      hosts that run several jobs at a time
    results      the result of a run of a Batsim scheduler
    summary      the columns of `PREFIX_schedule.csv`
    csv_files    the text of the files
"""
