"""Synthetic workloads: random models, and models that draw from the jobs of a log."""
