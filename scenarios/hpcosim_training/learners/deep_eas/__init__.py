"""Learning Deep-EAS: to bind jobs to machines, step by step."""
