"""The record of a run: recording, replay, energy attribution, metrics and result files.

The simulation writes a `Recording`. The other modules read a `RunRecord`, which
`Simulation.record()` returns, and need no simulation. A module imports only modules above it:

    periods      when and where the tasks of jobs computed, as columns
    recording    jobs and changes of jobs and nodes, as columns
    replay       the changes of a recording in order, applied to a cluster
    attribution  energy of each job
    run_record   a run as plain data: platform, recording, metered energies
    timeline     state and power of every node over time
    interruptions  metrics of requeues, suspensions and failures of nodes
    metrics      the metrics of a run; the docstring of each group defines them
    texts        cells with sets of integers, many at once
    tables       the CSV files, with a definition of each column
    folder       atomic writing of several files into a folder
    results      the results folder
"""
