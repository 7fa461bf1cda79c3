"""Errors of this package."""

from __future__ import annotations

from pathlib import Path

from hpcosim_protocol.errors import HpcosimError


class ScenariosError(HpcosimError):
    """Base class of the errors of this package."""


class FileError(ScenariosError):
    """A YAML file is invalid.

    The message has the form `FILE:LINE: FIELD: WHAT`; unknown parts are left out.

    Args:
        what: the fault: what was expected, and what was found.
        path: the file.
        line: line in the file, from 1.
        field: path of the field, such as `$.platform.nodes[0].count`, or `override PATH`.
        key: the unknown key in that field; empty: another fault.
    """

    def __init__(
        self,
        what: str,
        path: Path | None = None,
        line: int | None = None,
        field: str = "",
        key: str = "",
    ) -> None:
        super().__init__(what, path, line, field, key)
        self.what = what
        self.path = path
        self.line = line
        self.field = field
        self.key = key

    def __str__(self) -> str:
        where = [] if self.path is None else [str(self.path)]
        where += [] if self.line is None else [str(self.line)]
        parts = [":".join(where), self.field.removeprefix("$").removeprefix("."), self.what]
        return ": ".join(part for part in parts if part)


class ScenarioError(FileError):
    """The scenario is invalid."""


class RunError(ScenariosError):
    """The run failed: a process ended early, or the simulation is stuck."""

    exit_status = 1


class OracleError(ScenariosError):
    """The oracle cannot plan for this scenario, or SciPy is missing."""


class OptimumError(ScenariosError):
    """The search for the optimum does not support this scenario."""
