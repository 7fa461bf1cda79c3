"""What a journal tells: what a scheduler decided beside what Slurm did."""
