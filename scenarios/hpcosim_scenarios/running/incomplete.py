"""Results folders of runs that failed or were stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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
