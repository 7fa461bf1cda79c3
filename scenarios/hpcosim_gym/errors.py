"""Errors of training."""

from hpcosim_scenarios.errors import ScenariosError


class TrainingError(ScenariosError):
    """Base class of the errors of this package."""


class CheckpointError(TrainingError):
    """The checkpoint is missing or belongs to a different training."""
