"""Energy-aware shortest job first on machines in steps, job by job: a slow reference.

No events, no queue but lists: at each step jobs end, jobs come, what is bound is laid out cell by
cell, and pairs are bound as Esmaili, Pedram 2019, section III-D, has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass
class StepJob:
    """A job; times in steps.

    Attributes:
        number: its number.
        submit: when it comes.
        cores: how many it takes.
        expected, actual: run times on each machine.
        node, start: where and when it started.
    """

    number: int
    submit: int
    cores: int
    expected: tuple[int, ...]
    actual: tuple[int, ...]
    node: int = -1
    start: int = -1

    @property
    def least(self) -> int:
        """The least expected run time."""
        return min(self.expected)


class Grid:
    """Cores taken of each machine in each step from now on."""

    def __init__(self, cores: Sequence[int]) -> None:
        self.cores = cores
        self.taken: dict[tuple[int, int], int] = {}

    def take(self, node: int, first: int, steps: int, cores: int) -> None:
        """Take cores of a machine for some steps."""
        for step in range(first, first + steps):
            self.taken[node, step] = self.taken.get((node, step), 0) + cores

    def first(self, node: int, steps: int, cores: int) -> int:
        """Return the first step from which on so many cores are free for so long."""
        step = 0
        while any(
            self.taken.get((node, step + after), 0) + cores > self.cores[node]
            for after in range(steps)
        ):
            step += 1
        return step


def reference_esjf(
    jobs: Sequence[StepJob],
    cores: Sequence[int],
    watts: Sequence[Fraction],
    horizon: int,
    queue: int,
    now_only: bool,
) -> None:
    """Run all jobs, and set where and when each started."""
    bound: list[StepJob] = []
    now = 0
    while any(job.start < 0 for job in jobs):
        grid = Grid(cores)
        for job in jobs:
            if job.start >= 0 and now < job.start + job.actual[job.node]:
                left = max(job.start + job.expected[job.node] - now, 1)
                grid.take(job.node, 0, left, job.cores)
        for job in tuple(bound):  # those that start leave it
            _lay(grid, job, bound, now)
        while (pair := _least(jobs, grid, bound, watts, now, horizon, queue, now_only)) is not None:
            job, job.node = pair
            bound.append(job)
            _lay(grid, job, bound, now)
        now += 1


def _lay(grid: Grid, job: StepJob, bound: list[StepJob], now: int) -> None:
    steps = job.expected[job.node]
    first = grid.first(job.node, steps, job.cores)
    grid.take(job.node, first, steps, job.cores)
    if first == 0:
        job.start = now
        bound.remove(job)


def _least(
    jobs: Sequence[StepJob],
    grid: Grid,
    bound: Sequence[StepJob],
    watts: Sequence[Fraction],
    now: int,
    horizon: int,
    queue: int,
    now_only: bool,
) -> tuple[StepJob, int] | None:
    waiting = [job for job in jobs if job.submit <= now and job.start < 0 and job not in bound]
    best, least = None, Fraction(0)
    for job in waiting[:queue]:
        for node, steps in enumerate(job.expected):
            if job.cores > grid.cores[node]:
                continue
            first = grid.first(node, steps, job.cores)
            if first + steps > horizon or (now_only and first > 0):
                continue
            energy = Fraction(job.cores * steps, job.least) * watts[node]
            value = energy * Fraction(now - job.submit + first + steps, job.least)
            if best is None or value < least:
                best, least = (job, node), value
    return best
