"""What happened in a run: recorded, replayed, measured and written.

The simulation writes a `Recording`. Everything else here reads a `RunRecord`
(`Simulation.record()` returns one) and needs no simulation. Each module imports only modules
above it:

    recording    every job, and every change of a job or a node, as columns
    replay       the changes of a recording in order, and the cluster they lead to
    attribution  which job used how much energy
    run_record   a run as plain data: platform, recording, metered energies
    timeline     state and power of every node over time
    metrics      the numbers of a run, each defined in the docstring of its group
    tables       the CSV files, with the meaning of each column
    folder       files that are written together, all or none
    results      the results folder
"""
