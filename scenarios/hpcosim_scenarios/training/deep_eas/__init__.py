"""Training Deep-EAS."""
