"""Scheduling policies that need no training."""
