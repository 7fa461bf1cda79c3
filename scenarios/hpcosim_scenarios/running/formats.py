"""Formats of results beside our own. What writes one is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcosim_server.record.results import Also


class Format(StrEnum):
    """A format of results; they are written into the same folder."""

    batsim = "batsim"


def _batsim() -> Also:
    from hpcosim_batsim.outputs.csv_files import files_of
    from hpcosim_batsim.outputs.outcome import outcome_of

    return lambda record: files_of(outcome_of(record))


_WRITERS: Mapping[Format, Callable[[], Also]] = {Format.batsim: _batsim}


def also_of(formats: Sequence[Format]) -> list[Also]:
    """Return what `write_results` needs for formats, each once."""
    return [_WRITERS[name]() for name in dict.fromkeys(formats)]


def as_options(formats: Sequence[Format]) -> list[str]:
    """Return the options of `hpcosim serve` for formats."""
    return [f"--format={name}" for name in dict.fromkeys(formats)]
