"""Learners, one for each problem: networks, distributions, rewards, validation, and defaults."""
