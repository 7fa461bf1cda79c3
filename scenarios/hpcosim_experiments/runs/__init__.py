"""The runs of an experiment: what they simulate, their keys, and the task that simulates one."""
