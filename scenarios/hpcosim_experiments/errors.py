"""Errors of this package."""

from __future__ import annotations

from hpcosim_scenarios.errors import FileError


class ExperimentError(Exception):
    """Base class of the errors of this package."""


class ExperimentFileError(ExperimentError, FileError):
    """The experiment file is invalid. The arguments are those of `FileError`."""


class StoreError(ExperimentError):
    """Results cannot be stored: the folder is not writable, or the disk is full."""
