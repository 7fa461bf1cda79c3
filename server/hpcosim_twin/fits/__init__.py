"""Fits of what the configuration of a cluster does not say, from its accounting."""
