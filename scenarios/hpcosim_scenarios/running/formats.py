"""Formats of results beside our own. What writes one is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hpcosim_server.record.results import Also


class Format(NamedTuple):
    """A format of results; its files are written into the same folder as ours.

    Attributes:
        name: the value of the option `--format` of `hpcosim serve` that asks for it.
        writer: returns what writes it.
    """

    name: str
    writer: Callable[[], Also]


def writers_of(formats: Sequence[Format]) -> list[Also]:
    """Return what writes formats, each once."""
    return [each.writer() for each in dict.fromkeys(formats)]


def as_options(formats: Sequence[Format]) -> list[str]:
    """Return the options of `hpcosim serve` for formats."""
    return [f"--format={each.name}" for each in dict.fromkeys(formats)]
