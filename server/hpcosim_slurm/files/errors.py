"""Errors of this package."""

from __future__ import annotations

from pathlib import Path

from hpcosim_protocol.errors import HpcosimError


class ImportsError(HpcosimError):
    """Base class of the errors of this package."""


class InputError(ImportsError):
    """A file cannot be imported.

    Args:
        what: what is wrong, what was expected, and how to correct it.
        path: the file.
        line: line in the file, from 1; None: the whole file.
    """

    def __init__(self, what: str, path: Path | None = None, line: int | None = None) -> None:
        super().__init__(what, path, line)
        self.what = what
        self.path = path
        self.line = line

    def __str__(self) -> str:
        where = [] if self.path is None else [str(self.path)]
        where += [] if self.line is None else [str(self.line)]
        return f"{':'.join(where)}: {self.what}" if where else self.what


class FieldError(ImportsError, ValueError):
    """A value of a file is invalid. The reader of the file adds the place."""
