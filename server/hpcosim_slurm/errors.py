"""Errors of the bridge to Slurm."""

from __future__ import annotations

from collections.abc import Sequence

from hpcosim_protocol.errors import HpcosimError


class SlurmError(HpcosimError):
    """Base of every error this package raises."""


class CommandError(SlurmError):
    """A command of Slurm has failed.

    Attributes:
        words: what Slurm says, one line.
        status: its exit status; None: it did not end by itself.
    """

    def __init__(self, command: Sequence[str], words: str, status: int | None = None) -> None:
        super().__init__(command, words, status)
        self.command = tuple(command)
        self.words = words
        self.status = status

    def __str__(self) -> str:
        ended = "" if self.status is None else f" (exit status {self.status})"
        return f"{self.command[0]}: {self.words}{ended}"


class UnreachableError(CommandError):
    """The controller of the cluster does not answer."""


class ReadingError(SlurmError):
    """The output of a command has another form than expected."""


class JournalError(SlurmError):
    """A journal cannot be read, or belongs to another bridge."""
