"""Runs of instances that are recorded as journals, with a policy in this process."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

from hpcosim_client import PolicyError, play
from hpcosim_experiments.benchmark.errors import BenchmarkError
from hpcosim_experiments.benchmark.journal import Line, encode, line_of, sealed
from hpcosim_experiments.benchmark.suite import SuiteFile
from hpcosim_protocol import Decision, EventKind
from hpcosim_scenarios.errors import RunError
from hpcosim_scenarios.running.chosen import Chosen
from hpcosim_scenarios.running.library import LoadedScenario, open_loaded
from hpcosim_scenarios.running.run import opened_with
from hpcosim_sim.engine.simulation import Batch, Simulation
from hpcosim_sim.errors import SimulationStuck


class Recorded(NamedTuple):
    """A recorded run of an instance.

    Attributes:
        journal: its journal.
        requests: number of requests.
        decision_s: wall-clock time of all decisions together, s.
        longest_s: wall-clock time of the longest decision, s.
    """

    journal: bytes
    requests: int
    decision_s: float
    longest_s: float


class Stopwatch:
    """Measures the time that a scheduler takes between a reply and its next request.

    Attributes:
        total_s: the sum of the times, s.
        longest_s: the longest of them, s.
    """

    def __init__(self) -> None:
        self.total_s = self.longest_s = 0.0
        self._since_s = time.perf_counter()

    def start(self) -> None:
        """Note that the scheduler has a reply."""
        self._since_s = time.perf_counter()

    def stop(self) -> None:
        """Note that the scheduler has sent a request."""
        took_s = time.perf_counter() - self._since_s
        self.total_s += took_s
        self.longest_s = max(self.longest_s, took_s)


def record(suite: SuiteFile, name: str, loaded: LoadedScenario, chosen: Chosen) -> Recorded:
    """Run an instance with a policy in this process.

    Args:
        suite: the suite.
        name: name of the instance, for errors.
        loaded: the instance.
        chosen: the policy.

    Raises:
        RunError: the policy failed.
        BenchmarkError: it decided what the suite does not allow.
        PolicyError, OracleError: the policy cannot be made.
    """
    with opened_with(chosen, loaded) as (opened, policy):
        link = _RecordingLink(opened.simulation)
        try:
            play(
                policy,
                opened.simulation.cluster.platform,
                link,
                seed=opened.run.seed,
                wake_on_allocation=opened.simulation.rules.wake_on_allocation,
            )
        except (SimulationStuck, PolicyError) as error:
            raise RunError(f"{name}: {error}") from error
    return recorded(suite, name, loaded, link.lines, link.stopwatch)


def recorded(
    suite: SuiteFile,
    name: str,
    loaded: LoadedScenario,
    lines: Sequence[Line],
    stopwatch: Stopwatch,
) -> Recorded:
    """Return the requests of a scheduler as a journal with checksums.

    Args:
        suite: the suite.
        name: name of the instance, for errors.
        loaded: the instance.
        lines: the requests.
        stopwatch: has measured the decisions.

    Raises:
        BenchmarkError: the requests do not complete the instance, or contain decisions that the
            suite does not allow.
    """
    allowed: Collection[str] = suite.decisions
    try:
        complete = sealed(open_loaded(loaded, ""), lines, allowed)
    except BenchmarkError as error:
        raise BenchmarkError(f"{name}: {error}") from None
    return Recorded(encode(complete), len(lines), stopwatch.total_s, stopwatch.longest_s)


class _RecordingLink:
    """Passes decisions to a simulation, and keeps them.

    Attributes:
        lines: the requests so far.
        stopwatch: measures the decisions.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.lines: list[Line] = []
        self.stopwatch = Stopwatch()
        self._simulation = simulation

    def __call__(
        self,
        decisions: Sequence[Decision],
        wake_on: Collection[EventKind] | None,
        elapsed_s: float,
    ) -> Batch:
        self.stopwatch.stop()
        self.lines.append(line_of(decisions, wake_on, elapsed_s))
        batch = self._simulation.advance(
            decisions, wake_on=wake_on, elapsed_s=elapsed_s, seq=len(self.lines)
        )
        self.stopwatch.start()
        return batch
