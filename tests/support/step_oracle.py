"""Reference implementation of energy-aware shortest job first on machines with time steps.

At each step jobs end, jobs are submitted, and pairs of job and machine are bound as in Esmaili,
Pedram 2019, section III-D. The grid of cores and steps is updated cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass
class StepJob:
    """A job; times in steps.

    Attributes:
        number: job id.
        submit: submission step.
        cores: number of cores.
        expected, actual: run times on each machine.
        node, start: machine and start step; -1 before the start.
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
        """Lowest expected run time."""
        return min(self.expected)


class Grid:
    """Cores in use on each machine in each step from now on."""

    def __init__(self, cores: Sequence[int]) -> None:
        self.cores = cores
        self.taken: dict[tuple[int, int], int] = {}

    def take(self, node: int, first: int, steps: int, cores: int) -> None:
        """Occupy cores of a machine for a number of steps."""
        for step in range(first, first + steps):
            self.taken[node, step] = self.taken.get((node, step), 0) + cores

    def first(self, node: int, steps: int, cores: int) -> int:
        """Return the first step from which a number of cores is free for a duration."""
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
    """Run all jobs and set machine and start step of each."""
    bound: list[StepJob] = []
    now = 0
    while any(job.start < 0 for job in jobs):
        grid = Grid(cores)
        for job in jobs:
            if job.start >= 0 and now < job.start + job.actual[job.node]:
                left = max(job.start + job.expected[job.node] - now, 1)
                grid.take(job.node, 0, left, job.cores)
        for job in tuple(bound):  # started jobs leave the queue
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
