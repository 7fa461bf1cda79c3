"""Checks of a client: the kit is the server and runs a real simulation."""
