"""Errors of workloads."""

from __future__ import annotations

from pathlib import Path
from typing import Literal


class WorkloadsError(Exception):
    """Base of every error this package raises."""


class WorkloadError(WorkloadsError):
    """A workload file cannot be read, or a job in it is invalid.

    Args:
        what: what was wrong and what would be right.
        path: the file, if there is one.
        line: the line in that file, counted from 1.
    """

    def __init__(self, what: str, path: Path | None = None, line: int | None = None) -> None:
        super().__init__(what, path, line)
        self.what = what
        self.path = path
        self.line = line

    def __str__(self) -> str:
        where = "" if self.path is None else f"{self.path}: "
        if self.path is not None and self.line is not None:
            where = f"{self.path}:{self.line}: "
        return f"{where}{self.what}"


def check(valid: bool, name: str, value: object, expected: str) -> None:
    """Raise `WorkloadError` for the value of an argument that is not as expected.

    The comparisons that make up `valid` are False for NaN, so that it is never valid.
    """
    if not valid:
        raise WorkloadError(f"{name} is {value}; it must be {expected}")


class LineError(WorkloadsError, ValueError):
    """A job line is invalid. It is a ValueError, as the decoder's own errors are.

    Args:
        what: what was wrong and what would be right.
        field: the field at fault.
    """

    def __init__(self, what: str, field: str) -> None:
        super().__init__(what, field)
        self.what = what
        self.field = field

    def __str__(self) -> str:
        return f"{self.what} - at `$.{self.field}`"  # as msgspec has it


Fault = Literal["network", "server", "content", "address", "disk"]


class DownloadError(WorkloadsError):
    """A job log was not downloaded; no part of it stays on the disk.

    Args:
        fault: what failed: the "network" (no connection, or it broke), the "server" (it answered
            with an error), the "content" (not the known log), the "address" (none is known, or it
            is no web address; no request was sent), the "disk".
        what: what was found, and what was expected.
        where: the address or the folder.
    """

    def __init__(self, fault: Fault, what: str, where: str) -> None:
        super().__init__(fault, what, where)
        self.fault = fault
        self.what = what
        self.where = where

    def __str__(self) -> str:
        return f"the {self.fault} is at fault: {self.what} ({self.where})"
