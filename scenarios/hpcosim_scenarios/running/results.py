"""Results folders: additional formats, and folders of runs that failed or were stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_scenarios.errors import ScenariosError
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


def is_incomplete(results: Path) -> bool:
    """Return whether a folder has the results of a run that did not complete."""
    return _run_of(results).get("complete") is False


def why_incomplete(results: Path) -> str:
    """Return the reason why the run of a results folder ended early; empty: it completed."""
    return str(_run_of(results).get("ended_because", "")) if is_incomplete(results) else ""


@contextmanager
def incomplete_results_named(folder: Path, warn: Callable[[str], None]) -> Iterator[None]:
    """Warn with the folder if the `with` block fails and has written incomplete results there."""
    before = _written_ns(folder)
    try:
        yield
    except BaseException:
        if _written_ns(folder) != before and is_incomplete(folder):
            warn(f"incomplete results: {folder}")
        raise


def _run_of(results: Path) -> dict[str, Any]:
    """Return the content of `run.json`; empty: it is missing or not a description of a run."""
    try:
        run = json.loads((results / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return run if isinstance(run, dict) else {}


def _written_ns(results: Path) -> int:
    """Return the time at which `run.json` was written, ns; 0: it is missing."""
    try:
        return (results / "run.json").stat().st_mtime_ns
    except (OSError, ValueError):
        return 0


def _batsim() -> Also:
    from hpcosim_batsim.csv_files import files_of
    from hpcosim_batsim.results import outcome_of

    return lambda record, complete: files_of(outcome_of(record), complete=complete)


BATSIM = Format("batsim", _batsim)

FORMATS: Mapping[str, Format] = {each.name: each for each in (BATSIM,)}


def formats_of(names: Sequence[str] | None) -> list[Format]:
    """Return the formats with these names.

    Raises:
        ScenariosError: a name is unknown.
    """
    for name in names or ():
        if name not in FORMATS:
            raise ScenariosError(f"--format: expected one of {', '.join(FORMATS)}, got {name!r}")
    return [FORMATS[name] for name in names or ()]
