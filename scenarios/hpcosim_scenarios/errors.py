"""What can go wrong above server and scheduler, named by who is at fault."""

from __future__ import annotations

from pathlib import Path


class ScenariosError(Exception):
    """Base of every error this package raises."""


class ScenarioError(ScenariosError):
    """The scenario is at fault.

    Args:
        what: what was wrong and what would be right.
        path: the scenario's file.
        line: the line in it, counted from 1.
        field: the field at fault, such as `$.platform.nodes[0].count`.
        key: the unknown key in that field; empty: the fault is another.
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


class RunError(ScenariosError):
    """The run failed: a process died, or the simulation could not end."""


class OracleError(ScenariosError):
    """There is no such plan for this scenario, or SciPy is missing."""


class FigureError(ScenariosError):
    """The results folder is at fault, or matplotlib is missing."""


class OptimumError(ScenariosError):
    """The search knows no way to look for the optimum of such a scenario."""
