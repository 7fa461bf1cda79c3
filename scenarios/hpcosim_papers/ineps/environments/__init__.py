"""Environments of the pairing agent."""
