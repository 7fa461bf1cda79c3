"""Errors of this package."""


class ExperimentError(Exception):
    """Base class of the errors of this package."""
