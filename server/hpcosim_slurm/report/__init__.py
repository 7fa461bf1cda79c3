"""What a journal tells: what a scheduler decided beside what Slurm did.

* `rows`: each job with both of its runs. `witness`: what was seen of the real cluster.
* `watched`: the rows of a journal in mode shadow. `acted`: those of the modes hold and place, with
  `outcomes`: what became of each decision.
* `scripted`: a run whose starts and ends are given, as results of a simulation.
* `figures`: the figures of a run. `comparison`: those of mode shadow. `acting`: those of the modes
  hold and place. `texts`: figures for people.
* `export`: the report: figures as JSON and text, and both runs as results folders.
"""
