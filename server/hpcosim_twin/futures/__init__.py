"""Simulations of a queue from an instant on, and what they show of starts."""
