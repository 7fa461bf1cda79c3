"""Managers that switch nodes on and off, beside any job scheduler."""
