"""The configuration of a Slurm cluster as a scenario."""
