"""Transport `inproc`: simulator and scheduler in one process, connected by function calls."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hpcosim_client import Policy, PolicyError, play
from hpcosim_protocol import Decision, Event, EventKind
from hpcosim_scenarios.errors import RunError
from hpcosim_scenarios.running.progress import Report, ignore
from hpcosim_scenarios.running.warnings import Warn, ignore_warning
from hpcosim_server.service.observer import Ticker, Watch
from hpcosim_server.service.pace import Pace, RealTime
from hpcosim_server.service.session import Opened
from hpcosim_sim.engine.simulation import Batch
from hpcosim_sim.errors import SimulationStuck
from hpcosim_sim.record.results import Also, metrics_of, warnings_of, write_results

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
REPORT_EVERY_S = 0.1
CLOCK_EVERY = 256  # batches between two readings of the wall clock
PACE_TICK_S = 0.02  # longest sleep while the pace holds the simulation back
LABEL = "run"  # of the only session, for observers


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
        opened: the simulation.
        policy: called with the view after every batch of events.
        out: the results folder; None: nothing is written.
        report: called with the progress about ten times a second.
        also: additional result writers.
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
    try:
        play(
            policy,
            simulation.cluster.platform,
            _paced(link, opened, watch),
            snapshot,
            seed=run.seed,
            wake_on_allocation=simulation.rules.wake_on_allocation,
            explains=explain,
        )
        opened.complete()
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
        record = simulation.record()
        for warning in warnings_of(record, run):
            warn(warning)
        if out is not None:
            with _signals_ignored():
                write_results(out, record, run, also)
        if watch is not None:
            watch.observer.closed(LABEL)
    return metrics_of(record, run)


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
