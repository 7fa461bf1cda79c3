"""Environments of Deep-EAS."""
