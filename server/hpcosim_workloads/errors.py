"""Errors of the workloads package."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hpcosim_protocol.errors import HpcosimError


class WorkloadsError(HpcosimError):
    """Base of every error this package raises."""


class WorkloadError(WorkloadsError):
    """A workload file cannot be read, a job is invalid, or an argument is out of range.

    Args:
        path: the file, if there is one.
        line: the line of the file, counted from 1.
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


class CutOffError(WorkloadError):
    """A compressed file ends before its end mark; the lines before could be read."""


def check(valid: bool, name: str, value: object, expected: str) -> None:
    """Raise `WorkloadError` unless `valid`.

    Args:
        valid: whether the value is valid; comparisons with NaN are False, so NaN is invalid.
    """
    if not valid:
        raise WorkloadError(f"{name} is {value}; it must be {expected}")


class LineError(WorkloadsError, ValueError):
    """A job line is invalid. It is a ValueError, like the errors of the JSON decoder.

    Args:
        place: place of the line if the error was found after it was read; None: the latest line.
    """

    def __init__(self, what: str, field: str, place: int | None = None) -> None:
        super().__init__(what, field, place)
        self.what = what
        self.field = field
        self.place = place

    def __str__(self) -> str:
        return f"{self.what} - at `$.{self.field}`"  # the form of msgspec's messages


Fault = Literal["network", "server", "content", "address", "disk"]


class DownloadError(WorkloadsError):
    """The download of a job log failed; no partial file remains.

    Args:
        fault: what failed: "network" (no connection, or it broke), "server" (an error status),
            "content" (not the expected log), "address" (unknown or not a web address; no request
            was sent) or "disk".
    """

    def __init__(self, fault: Fault, what: str, where: str) -> None:
        super().__init__(fault, what, where)
        self.fault = fault
        self.what = what
        self.where = where
        self.exit_status = 2 if fault == "address" else 1

    def __str__(self) -> str:
        return f"download failed ({self.fault}): {self.what} ({self.where})"
