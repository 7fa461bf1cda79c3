"""The layout of jobs on cores for a Gantt chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import NamedTuple


class JobRow(NamedTuple):
    """A row of jobs.csv.

    Attributes:
        submit_s, start_s, end_s: simulated times, s; None: the job has not started or ended.
        state: state of the job, as in the file.
        cores: requested cores.
        nodes: allocated nodes: first and last of each interval.
    """

    submit_s: float
    start_s: float | None
    end_s: float | None
    state: str
    cores: int
    nodes: list[tuple[int, int]]


class Box(NamedTuple):
    """A job on adjacent cores.

    Attributes:
        row: row of the job in jobs.csv.
        first, last: first and last core, numbered through all nodes.
    """

    row: int
    first: int
    last: int


def boxes(jobs: Sequence[JobRow], cores_by_node: Sequence[int]) -> list[Box]:
    """Return the boxes of the jobs of a run; no two overlap.

    The results have the number of cores of a job on each node, not the cores themselves. Here a job
    fills its nodes in ascending order and takes the lowest free cores of each, which is the default
    of the simulator.

    Args:
        jobs: the rows of jobs.csv.
        cores_by_node: number of cores of each node.
    """
    first_core = [0, *accumulate(cores_by_node)]
    free = [list(range(first_core[n], first_core[n + 1])) for n in range(len(cores_by_node))]
    for heap in free:
        heapify(heap)
    taken: dict[int, list[tuple[int, int]]] = {}
    drawn: list[Box] = []
    for _, starts, row in sorted(_changes(jobs)):
        if not starts:
            for node, core in taken.pop(row, ()):
                heappush(free[node], core)
            continue
        taken[row] = _take(jobs[row], free)
        drawn += _runs(row, [core for _, core in taken[row]])
    return drawn


def _changes(jobs: Sequence[JobRow]) -> Iterator[tuple[float, bool, int]]:
    """Yield time, whether it is a start, and row. At equal times ends sort first."""
    for row, job in enumerate(jobs):
        if job.start_s is not None:
            yield job.start_s, True, row
            if job.end_s is not None:
                yield job.end_s, False, row


def _take(job: JobRow, free: list[list[int]]) -> list[tuple[int, int]]:
    missing = job.cores
    taken = []
    for first, last in job.nodes:
        for node in range(first, last + 1):
            for _ in range(min(missing, len(free[node]))):
                taken.append((node, heappop(free[node])))
                missing -= 1
    return taken


def _runs(row: int, cores: list[int]) -> list[Box]:
    """Return the runs of adjacent cores as boxes."""
    found: list[Box] = []
    for core in sorted(cores):
        if found and core == found[-1].last + 1:
            found[-1] = found[-1]._replace(last=core)
        else:
            found.append(Box(row, core, core))
    return found
