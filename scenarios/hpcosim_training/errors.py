"""Errors of trainings."""

from hpcosim_scenarios.errors import ScenariosError


class TrainingError(ScenariosError):
    """Base of the errors of this package."""


class CheckpointError(TrainingError):
    """There is no checkpoint, or it is of another training."""
