"""The progress of a run on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

Report = Callable[[float, int, int], None]
"""Takes the simulated time (s), the number of ended jobs, and the number of all jobs.

Where runs are counted instead of jobs, the time is ignored.
"""

LINE_EVERY_S = 10.0  # between lines if standard error is no terminal


def ignore(now_s: float, over: int, jobs: int) -> None:
    """Show no progress."""


@contextmanager
def shown(
    title: str, counted: Literal["jobs", "runs"] = "jobs", *, at_once: bool = True
) -> Iterator[Report]:
    """Show progress on standard error: a bar on a terminal, otherwise a line every 10 s.

    The time left comes from the pace after the first completions, without the start of workers.
    Without `at_once` the bar appears with the first progress, so that others can write before it.
    """
    if not sys.stderr.isatty():
        yield _lines(title, counted)
        return
    from rich import progress
    from rich.console import Console

    bar = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn(f"{counted}{{task.fields[detail]}}"),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,  # would start a thread, and a process with threads cannot be forked
    )
    if at_once:
        bar.start()
    try:
        task = bar.add_task(title, total=None, detail="")
        began_s = time.monotonic()

        def report(now_s: float, over: int, jobs: int) -> None:
            detail = f"  {_pace(now_s, over, began_s)}" if counted == "jobs" else ""
            bar.start()
            bar.update(task, completed=over, total=jobs, detail=detail, refresh=True)

        yield report
    finally:
        bar.stop()


def span(seconds: float) -> str:
    """Return a duration as text: `3 d 04:05:06`."""
    days, rest = divmod(int(seconds), 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days} d {clock}" if days else clock


def _pace(now_s: float, over: int, began_s: float) -> str:
    speed = over / max(time.monotonic() - began_s, 1e-9)
    return f"{speed:,.0f} jobs/s, simulated {span(now_s)}"


def _lines(title: str, counted: str) -> Report:
    began_s = last_s = time.monotonic()
    first_s, first = 0.0, 0  # of the first line with completions: workers start before them

    def report(now_s: float, over: int, jobs: int) -> None:
        nonlocal last_s, first_s, first
        wall_s = time.monotonic()
        if wall_s - last_s < LINE_EVERY_S:
            return
        last_s = wall_s
        if not first:
            first_s, first = wall_s, over
        pace = f", {_pace(now_s, over, began_s)}" if counted == "jobs" else ""
        since = over - first if first else 0
        left = f", {span((jobs - over) * (wall_s - first_s) / since)} left" if since else ""
        sys.stderr.write(f"{title}: {over} of {jobs} {counted}{pace}{left}\n")

    return report
