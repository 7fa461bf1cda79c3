"""Tables for the terminal, in the look of Slurm's commands.

text       columns, durations and node lists as Slurm prints them
times      times of a run from text: `2d`, `50%`
squeue     the jobs at a time
sinfo      the nodes at a time
"""
