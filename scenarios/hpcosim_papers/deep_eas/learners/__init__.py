"""Training of Deep-EAS: bind jobs to machines in whole steps."""
