"""Errors of this package."""

from __future__ import annotations


class ExecutorError(Exception):
    """An executor cannot start: a package, a program, a cluster or an input file is missing."""


class LostTaskError(ExecutorError):
    """A task has no result: every worker that ran it was lost.

    Attributes:
        completed: number of tasks that completed before.
    """

    def __init__(self, what: str, completed: int) -> None:
        super().__init__(what, completed)
        self.what = what
        self.completed = completed

    def __str__(self) -> str:
        return self.what
