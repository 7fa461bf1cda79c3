"""Which cores each job is drawn on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import NamedTuple


class JobRow(NamedTuple):
    """A row of jobs.csv.

    Attributes:
        submit_s, start_s, end_s: seconds; None: has not come.
        state: as in the file.
        cores: asked for.
        nodes: those it was given, as first and last of each interval.
    """

    submit_s: float
    start_s: float | None
    end_s: float | None
    state: str
    cores: int
    nodes: list[tuple[int, int]]


class Box(NamedTuple):
    """A job on cores beside each other.

    Attributes:
        row: the job's, in jobs.csv.
        first, last: cores, numbered through all nodes.
    """

    row: int
    first: int
    last: int


def boxes(jobs: Sequence[JobRow], cores_by_node: Sequence[int]) -> list[Box]:
    """Lay the jobs of a run out on cores, so that no two are drawn over each other.

    The results say how many cores a job had, not which: here each job fills its nodes in
    ascending order, on each the lowest cores that are free, as the simulator does unless told
    otherwise.

    Args:
        jobs: the rows of jobs.csv.
        cores_by_node: of the platform.
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
    """Yield time, whether it is a start, and row; at one time ends come first."""
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
    """Return cores beside each other as boxes."""
    found: list[Box] = []
    for core in sorted(cores):
        if found and core == found[-1].last + 1:
            found[-1] = found[-1]._replace(last=core)
        else:
            found.append(Box(row, core, core))
    return found
