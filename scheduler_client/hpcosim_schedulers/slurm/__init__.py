"""Slurm's rules of order, limits and placement, with a site's accounts and settings."""
