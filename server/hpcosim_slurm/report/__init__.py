"""What a journal tells: what a scheduler decided beside what Slurm did.

* `figures`: each job with both of its runs, and the figures of a run.
* `decided_runs`: the rows of the modes hold and place, and what became of each decision.
* `export`: the report: figures as JSON and text, and both runs as results folders.
"""
