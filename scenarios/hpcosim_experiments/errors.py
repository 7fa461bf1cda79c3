"""Errors of this package."""

from __future__ import annotations

from hpcosim_protocol.errors import HpcosimError
from hpcosim_scenarios.errors import FileError


class ExperimentError(HpcosimError):
    """Base class of the errors of this package."""


class ExperimentFileError(ExperimentError, FileError):
    """The experiment file is invalid. The arguments are those of `FileError`."""


class StoreError(ExperimentError):
    """Results cannot be stored: the folder is not writable, or the disk is full."""

    exit_status = 1
