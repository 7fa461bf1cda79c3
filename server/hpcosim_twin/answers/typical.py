"""Expected waits of the kinds of jobs that a cluster's users submit most."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from prometheus_client.core import GaugeMetricFamily, Metric

from hpcosim_twin.answers.questions import AnyQuestion, WaysQuestion
from hpcosim_twin.cluster.observation import ForecastError, Observation

MOST_KINDS = 3
"""Number of kinds of each partition."""
DEFAULT_S = 3600.0
"""Time limit of the kind of a partition in which nobody submits, s."""


class JobKind(NamedTuple):
    """What jobs of a kind ask for."""

    partition: str
    cpus: int
    limit_s: float

    @property
    def options(self) -> str:
        """Options of sbatch."""
        minutes = max(math.ceil(self.limit_s / 60.0), 1)
        return f"-p {shlex.quote(self.partition)} -n {self.cpus} -t {minutes}"


class Answering(Protocol):
    """Answers the twin's own questions."""

    async def own(self, question: AnyQuestion) -> dict[str, Any] | None:
        """Return an answer; None: there is no picture."""


def kinds_of(observation: Observation) -> list[JobKind]:
    """Return the most frequent kinds of jobs of each partition that is up.

    A partition without jobs has one core for an hour.
    """
    state = observation.state
    counts: dict[str, Counter[JobKind]] = {
        name: Counter() for name, each in state.partitions.items() if each.is_up
    }
    for job in state.jobs.values():
        if job.partition in counts and job.time_limit_s is not None:
            kind = JobKind(job.partition, job.cpus, job.time_limit_s)
            counts[job.partition][kind] += 1
    found = []
    for name, counted in counts.items():
        most = sorted(counted, key=lambda kind: (-counted[kind], kind))[:MOST_KINDS]
        limit_s = min(state.partitions[name].time_limit_s or DEFAULT_S, DEFAULT_S)
        found += most or [JobKind(name, 1, limit_s)]
    return found


class TypicalWaits:
    """The last expected waits of typical jobs."""

    def __init__(self) -> None:
        self._waits: dict[JobKind, tuple[float | None, float | None]] = {}

    async def update(self, desk: Answering, observation: Observation) -> None:
        """Ask when typical jobs would start.

        Raises:
            HpcosimError: there is no answer.
        """
        found: dict[JobKind, tuple[float | None, float | None]] = {}
        for kind in kinds_of(observation):
            try:
                answer = await desk.own(WaysQuestion((kind.options,)))
            except ForecastError:  # such a job can never start
                found[kind] = (None, None)
                continue
            if answer is None:
                return
            (row,) = answer["jobs"]
            times = (row["start"]["median_s"], row["start"]["ranges"]["0.8"][1])
            median_s, high_s = (None if t is None else t - answer["at_s"] for t in times)
            found[kind] = (median_s, high_s)
        self._waits = found

    def metrics(self) -> Iterator[Metric]:
        """Yield the waits; a kind that never starts has +Inf."""
        family = GaugeMetricFamily(
            "hpcosim_twin_expected_wait_seconds",
            "Expected wait of a job that is submitted now, of a frequent kind",
            labels=["partition", "cpus", "limit", "quantile"],
        )
        for kind, waits in list(self._waits.items()):
            for quantile, wait_s in zip(("0.5", "0.9"), waits, strict=True):
                labels = [kind.partition, str(kind.cpus), f"{kind.limit_s:.0f}", quantile]
                family.add_metric(labels, math.inf if wait_s is None else max(wait_s, 0.0))
        yield family
