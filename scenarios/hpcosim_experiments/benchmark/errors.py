"""Errors of this package."""

from __future__ import annotations

from pathlib import Path

from hpcosim_experiments.errors import ExperimentError
from hpcosim_scenarios.errors import FileError


class BenchmarkError(ExperimentError):
    """Base class of the errors of this package."""


class SuiteError(BenchmarkError, FileError):
    """The file of a suite is invalid. The arguments are those of `FileError`."""


class VerificationError(BenchmarkError):
    """A submission is not what it claims to be.

    Args:
        path: the submission.
        what: what is wrong, where, and what was expected.
    """

    exit_status = 1

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}")
