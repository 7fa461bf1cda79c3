"""The progress of a run on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[float, int, int], None]
"""Takes the simulated time (s), the number of ended jobs, and the number of all jobs."""

LINE_EVERY_S = 10.0  # between lines if standard error is no terminal


def ignore(now_s: float, over: int, jobs: int) -> None:
    """Show no progress."""


@contextmanager
def shown(title: str) -> Iterator[Report]:
    """Show progress on standard error: a bar on a terminal, otherwise a line every 10 s."""
    if not sys.stderr.isatty():
        yield _lines(title)
        return
    from rich import progress
    from rich.console import Console

    bar = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("jobs  {task.fields[speed]} jobs/s  simulated {task.fields[now]}"),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(title, total=None, speed="-", now="-")
        began_s = time.monotonic()

        def report(now_s: float, over: int, jobs: int) -> None:
            speed = over / max(time.monotonic() - began_s, 1e-9)
            bar.update(task, completed=over, total=jobs, speed=f"{speed:,.0f}", now=span(now_s))

        yield report


def span(seconds: float) -> str:
    """Return a duration as text: `3 d 04:05:06`."""
    days, rest = divmod(int(seconds), 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days} d {clock}" if days else clock


def _lines(title: str) -> Report:
    began_s = last_s = time.monotonic()

    def report(now_s: float, over: int, jobs: int) -> None:
        nonlocal last_s
        wall_s = time.monotonic()
        if wall_s - last_s < LINE_EVERY_S:
            return
        last_s = wall_s
        speed = over / (wall_s - began_s)
        left = span((jobs - over) / speed) if speed else "?"
        sys.stderr.write(
            f"{title}: {over} of {jobs} jobs, {speed:,.0f} jobs/s, "
            f"simulated {span(now_s)}, {left} left\n"
        )

    return report
