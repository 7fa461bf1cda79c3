"""Additional formats of results. The writer of a format is imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hpcosim_sim.record.results import Also


class Format(NamedTuple):
    """An additional format of results; its files are written into the same results folder.

    Attributes:
        name: value of the option `--format` of `hpcosim serve`.
        writer: returns the result writer.
    """

    name: str
    writer: Callable[[], Also]


def writers_of(formats: Sequence[Format]) -> list[Also]:
    """Return the result writers of formats, without repetition."""
    return [each.writer() for each in dict.fromkeys(formats)]


def as_options(formats: Sequence[Format]) -> list[str]:
    """Return the options of `hpcosim serve` for formats."""
    return [f"--format={each.name}" for each in dict.fromkeys(formats)]
