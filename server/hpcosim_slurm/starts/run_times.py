"""Run times of jobs that have not ended, drawn from what jobs of the same user did before."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from numpy.random import Generator

from hpcosim_schedulers.forecast import RunTimes, TimeDistribution
from hpcosim_schedulers.forecast.run_times import SHORTEST_S
from hpcosim_schedulers.forecast.run_times import UNLIMITED_S as UNLIMITED_S
from hpcosim_workloads.table import JobSpec


class EndedJob(NamedTuple):
    """A job of the history.

    Attributes:
        user: its user.
        requested_s: its requested run time, s.
        run_s: its run time, s; None: it was ended at its limit.
    """

    user: str
    requested_s: float
    run_s: float | None


def learned(history: Iterable[EndedJob]) -> RunTimes:
    """Return the model of run times that has learned from ended jobs, in their order.

    The history has no sizes and groups, so all jobs count as of the same size.
    """
    found = RunTimes()
    for job in history:
        limit_s = job.requested_s
        is_ended = job.run_s is None or (job.run_s >= limit_s and limit_s < UNLIMITED_S)
        run_s = limit_s if job.run_s is None or is_ended else job.run_s
        found.ended(job.user, "", limit_s, 0.0, run_s)
    return found


class DrawnRunTimes:
    """Run times of one simulation.

    Each simulation has probabilities of its own for each user and requested time
    (`TimeDistribution.resampled`): what a short history leaves unknown is the same for all jobs
    of a simulation.

    Args:
        run_times: the model.
        generator: the source of randomness.
    """

    def __init__(self, run_times: RunTimes, generator: Generator) -> None:
        self._run_times, self._generator = run_times, generator
        self._known: dict[tuple[str, float], TimeDistribution] = {}

    def of(self, job: JobSpec, elapsed_s: float) -> float:
        """Return a run time of a job, s.

        Args:
            job: the job; its `run_s` is not used.
            elapsed_s: time for which it has run, s.

        Returns:
            A run time > `elapsed_s`; infinity: it runs until it is ended at its limit.
        """
        key = job.user, job.requested_s
        found = self._known.get(key)
        if found is None:
            whole = self._run_times.distribution(job.user, "", job.requested_s, 0.0)
            found = self._known[key] = whole.resampled(self._generator)
        run_s = float(found.after(elapsed_s).drawn_s(self._generator, 1)[0])
        if run_s >= job.requested_s:
            return math.inf
        return max(run_s, elapsed_s + SHORTEST_S)
