"""Environments of trained power managers."""
