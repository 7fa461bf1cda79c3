"""Experiments: many runs of a scenario along axes, with statistics and a report."""
