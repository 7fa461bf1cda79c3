"""Errors of training."""

from hpcosim_scenarios.errors import FileError, ScenariosError


class TrainingError(ScenariosError):
    """Base class of the errors of this package."""


class CheckpointError(TrainingError):
    """The checkpoint is missing or belongs to a different training."""


class EvaluationError(TrainingError):
    """Runs of an evaluation failed."""

    exit_status = 1


class RecipeError(TrainingError, FileError):
    """The recipe of a training is invalid."""
