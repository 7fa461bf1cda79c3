"""Figures of a results folder."""
