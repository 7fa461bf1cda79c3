"""Execution of independent tasks: in local processes, on a Ray cluster, or as Slurm jobs."""
