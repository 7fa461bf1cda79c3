"""A live Slurm cluster behind the hpcosim protocol: the schedulers of simulations drive it."""
