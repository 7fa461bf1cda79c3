"""Trained agents. They need torch, the extra `rl`."""
