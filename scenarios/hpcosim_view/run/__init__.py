"""Results of a run as columns, read from its folder or from a running simulation.

Read a results folder, and look at its queue at a time:

    from pathlib import Path

    from hpcosim_view.run.folder import read_folder
    from hpcosim_view.run.moment import moment

    run = read_folder(Path("results/demo"))
    waiting = moment(run, at_s=86400.0).waiting.job  # rows of the jobs
    print(run.columns["job.id"][waiting])

`hpcosim_view.run.frame.COLUMNS` defines the columns.
"""
