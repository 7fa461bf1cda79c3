"""Transport `inproc`: simulator and scheduler in one process, connected by function calls."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from hpcosim_client import Policy, PolicyError, play
from hpcosim_client.loop import Player
from hpcosim_protocol import Decision, Event, EventKind
from hpcosim_scenarios.errors import RunError
from hpcosim_scenarios.running.warnings import Warn, ignore_warning
from hpcosim_server.service.observer import Ticker, Watch
from hpcosim_server.service.pace import Pace, RealTime
from hpcosim_server.service.session import BasicProfile, Opened
from hpcosim_sim.engine.simulation import Batch
from hpcosim_sim.errors import SimulationStuck
from hpcosim_sim.record.results import Also, Run, metrics_of, warnings_of, write_results
from hpcosim_sim.record.run_record import RunRecord

Report = Callable[[float, int, int], None]
"""Takes the simulated time (s), the number of ended jobs, and the number of all jobs.

Where runs are counted instead of jobs, the time is ignored.
"""

LINE_EVERY_S = 10.0  # between lines if standard error is no terminal


STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
REPORT_EVERY_S = 0.1
CLOCK_EVERY = 256  # batches between two readings of the wall clock
PACE_TICK_S = 0.02  # longest sleep while the pace holds the simulation back
LABEL = "run"  # of the only session, for observers


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


def run_in_process(
    opened: Opened,
    policy: Policy,
    out: Path | None = None,
    report: Report = ignore,
    also: Sequence[Also] = (),
    warn: Warn = ignore_warning,
    *,
    explain: bool = False,
    watch: Watch | None = None,
    snapshot: tuple[float, Sequence[Event]] = (0.0, ()),
) -> dict[str, int | float]:
    """Run a simulation with a policy, write the results, and return the metrics.

    Args:
        policy: called with the view after every batch of events.
        out: the results folder; None: nothing is written.
        report: called with the progress about ten times a second.
        warn: called with each warning at the end of the run.
        watch: an observer of the run, and its pace; None: no observer, as fast as possible.
        explain: record explanations of the policy (`View.explain`).
        snapshot: simulated time, in seconds, and events with which the policy begins in the middle
            of a simulation; none: at its start.

    Raises:
        RunError: the simulation is stuck, or the policy raised PolicyError. The results up to then
            are written.
        ResultsError: the results cannot be written; it has the metrics.
    """
    simulation, run = opened.simulation, opened.run
    link = _Link(opened, report)
    if isinstance(policy, Player) and not policy.hello.workload_manager:
        profile = BasicProfile()
        simulation.outbox.profile = profile.events
        snapshot = (snapshot[0], profile.snapshot(snapshot[1]))
    try:
        with finished(simulation, run, out, also, warn) as ended:
            play(
                policy,
                simulation.cluster.platform,
                _paced(link, opened, watch),
                snapshot,
                seed=run.seed,
                wake_on_allocation=simulation.rules.wake_on_allocation,
                explains=explain,
            )
    finally:
        if watch is not None:
            watch.observer.closed(LABEL)
    return metrics_of(ended.record, run)


class Recorded(Protocol):
    """A simulation that has a record."""

    def record(self) -> RunRecord:
        """Return the run so far."""


@dataclass
class Ended:
    """A run that has ended.

    Attributes:
        record: the run; it is there when the context of `finished` is left.
    """

    record: RunRecord = field(init=False)


@contextmanager
def finished(
    simulation: Recorded, run: Run, out: Path | None, also: Sequence[Also], warn: Warn
) -> Iterator[Ended]:
    """Run a simulation in the context; then write the results, complete or not.

    Args:
        simulation: the simulation.
        run: the content of `run.json`, to which the context adds how the run ended.
        out: as for `run_in_process`.
        also: as for `run_in_process`.
        warn: as for `run_in_process`.

    Raises:
        RunError, ResultsError: as `run_in_process`.
    """
    ended = Ended()
    try:
        yield ended
        run.complete, run.ended_because = True, "every job is over"
    except (SimulationStuck, PolicyError) as error:
        run.ended_because = str(error)
        raise RunError(str(error)) from error
    except KeyboardInterrupt as stopped:
        run.ended_because = f"stopped by {signal_of(stopped).name}"
        raise
    except BaseException as error:
        run.ended_because = f"the run was interrupted by {error!r}"
        raise
    finally:
        ended.record = record = simulation.record()
        for warning in warnings_of(record, run):
            warn(warning)
        if out is not None:
            with _signals_ignored():
                write_results(out, record, run, also)


def signal_of(stopped: KeyboardInterrupt) -> signal.Signals:
    """Return the signal that raised an exception: its argument, or SIGINT for Ctrl-C."""
    return signal.Signals(stopped.args[0] if stopped.args else signal.SIGINT)


@contextmanager
def _signals_ignored() -> Iterator[None]:
    """Ignore stop signals, so that results are written completely."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Link:
    """Passes decisions to the simulation and reports progress."""

    def __init__(self, opened: Opened, report: Report) -> None:
        self._simulation = opened.simulation
        self._jobs = opened.jobs
        self._report = report
        self._seq = 0
        self._due_s = 0.0

    def __call__(
        self,
        decisions: Sequence[Decision],
        wake_on: Collection[EventKind] | None,
        elapsed_s: float,
    ) -> Batch:
        self._seq += 1
        if self._seq % CLOCK_EVERY == 0 and time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + REPORT_EVERY_S
            simulation = self._simulation
            self._report(simulation.now_s, simulation.recording.over, self._jobs)
        return self._simulation.advance(
            decisions, wake_on=wake_on, elapsed_s=elapsed_s, seq=self._seq
        )


def _paced(link: _Link, opened: Opened, watch: Watch | None) -> Callable[..., Batch]:
    """Return a link with the pace of the run."""
    pace: Pace | None = None
    if factor := opened.run.realtime:
        pace = RealTime(factor, opened.simulation.now_s)
    if watch is not None:
        pace = pace or watch.pace_of(opened)
        watch.observer.opened(LABEL, opened, pace)
    return link if pace is None else _PacedLink(link, pace, watch)


def _no_work() -> bool:
    """Do what an observer without work does."""
    return False


class _PacedLink:
    """Passes decisions to the simulation, sleeps at the pace of the run, and calls an observer."""

    def __init__(self, link: _Link, pace: Pace, watch: Watch | None) -> None:
        self._link = link
        self._ticker = Ticker(watch.observer.ticked if watch else _no_work, time.monotonic)
        self._pace = pace

    def __call__(
        self,
        decisions: Sequence[Decision],
        wake_on: Collection[EventKind] | None,
        elapsed_s: float,
    ) -> Batch:
        if isinstance(self._pace, RealTime):
            elapsed_s = max(elapsed_s, self._pace.elapsed_s())
        batch = self._link(decisions, wake_on, elapsed_s)
        self._ticker.tick()
        if not (batch.ended or self._pace.is_free):
            while (wait_s := self._pace.wait_s(batch.now_s)) > 0.0:
                time.sleep(min(wait_s, PACE_TICK_S))
                self._ticker.tick()
            self._pace.sent(batch.now_s)
        return batch
