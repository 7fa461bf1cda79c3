"""What a journal tells: what the scheduler would have done beside what Slurm did.

* `rows`: each job with both of its runs.
* `scripted`: a run whose starts and ends are given, as results of a simulation.
* `comparison`: the figures.
* `export`: both runs as results folders, and the figures as JSON and text.
"""
