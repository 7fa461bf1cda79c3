"""The least sum of responses of a few rigid jobs, by trying every order."""

from __future__ import annotations

import itertools
from typing import NamedTuple


class RigidJob(NamedTuple):
    """A job: submission, s, run time, s, and cores; whole numbers."""

    submit_s: int
    run_s: int
    cores: int


def least_mean_response_s(jobs: list[RigidJob], cores: int) -> float:
    """Return the least mean response over all schedules without preemption.

    Some order in which each job starts as early as it fits beside those before it is optimal,
    because an earlier end never costs more.
    """
    totals = (_total_s(order, cores) for order in itertools.permutations(jobs))
    return min(totals) / len(jobs)


def _total_s(order: tuple[RigidJob, ...], cores: int) -> int:
    used: dict[int, int] = {}
    total_s = 0
    for job in order:
        start_s = job.submit_s
        while any(
            used.get(second, 0) + job.cores > cores
            for second in range(start_s, start_s + job.run_s)
        ):
            start_s += 1
        for second in range(start_s, start_s + job.run_s):
            used[second] = used.get(second, 0) + job.cores
        total_s += start_s + job.run_s - job.submit_s
    return total_s
