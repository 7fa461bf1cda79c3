"""What several formats need of a run: names, the nodes of a start, running jobs in order."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_sim.record.recording import STATES
from hpcosim_view.run.frame import Frame
from hpcosim_view.run.periods import JobPeriods, periods_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Node(NamedTuple):
    """A node of the platform.

    Attributes:
        number: node number.
        group: name of its group.
        cores: number of cores.
    """

    number: int
    group: str
    cores: int


class Place(NamedTuple):
    """The cores of a job on a node.

    Attributes:
        node: node number.
        cores: number of cores that the job holds there.
    """

    node: int
    cores: int


class JobChange(NamedTuple):
    """A computing period of a job begins or ends.

    Attributes:
        time_s: simulated time, s.
        job: row of the job.
        start: index of the start.
        starts: True if it begins, False if it ends or the simulation ends before it.
    """

    time_s: float
    job: int
    start: int
    starts: bool


def nodes_of(frame: Frame) -> list[Node]:
    """Return the nodes of the platform, in order of their numbers."""
    nodes: list[Node] = []
    for count, cores, group in frame.about["nodes"]:
        nodes += [Node(len(nodes) + number, clean(group), cores) for number in range(count)]
    return nodes


def clean(text: object) -> str:
    """Return text that any encoding in UTF-8 accepts."""
    return str(text).encode("utf-8", "replace").decode()


def printable(text: str) -> str:
    """Return text on one line without characters that control a terminal or its direction."""
    return "".join(each if each.isprintable() else "?" for each in text)


def named(frame: Frame, names: str, column: str) -> list[str | None]:
    """Return a column of names as text; None: unknown.

    Args:
        frame: the run.
        names: key of `about` with the names.
        column: name of the column with indices.
    """
    texts = [clean(name) for name in frame.about[names]]
    return [texts[index] if index >= 0 else None for index in frame.columns[column].tolist()]


def by_job(frame: Frame, rows: str, column: str, missing: float = math.nan) -> Floats:
    """Return a column of starts or ends by row of the job.

    Args:
        frame: the run.
        rows: name of the column with the row of the job.
        column: name of the column with the values.
        missing: value of jobs without such a row.
    """
    values = np.full(len(frame.columns["job.id"]), missing)
    values[frame.columns[rows]] = frame.columns[column]
    return values


def states_of(frame: Frame) -> list[str]:
    """Return the state of each job at the end of the run, one of `STATES`."""
    codes = np.zeros(len(frame.columns["job.id"]), np.int64)
    codes[frame.columns["start.job"]] = STATES.index("running")
    periods = periods_of(frame)
    codes[waits_again(periods)] = STATES.index("waiting")
    codes[frame.columns["end.job"]] = frame.columns["end.state"]
    return [STATES[code] for code in codes.tolist()]


def waits_again(periods: JobPeriods) -> NDArray[np.bool_]:
    """Return whether each job waits, or was over, after a requeue, by row of the job."""
    found: NDArray[np.bool_] = np.append(periods.requeued, False)[periods.last]
    return found


def last_period_of(periods: JobPeriods) -> Ints:
    """Return the row of `start` with the last period of the last run, by row of the job.

    It is -1 for a job that has not started, or that did not start again after a requeue.
    """
    return np.where(waits_again(periods), -1, periods.last)


def starts_of(periods: JobPeriods, last: Ints) -> Floats:
    """Return the start of the last run of each job, s; NaN: see `last_period_of`."""
    return np.append(periods.run_start_s, np.nan)[last]


class Placements:
    """The nodes of each start, from the boxes of cores.

    Args:
        frame: the run.
    """

    def __init__(self, frame: Frame) -> None:
        self._first_core = list(accumulate((node.cores for node in nodes_of(frame)), initial=0))
        self._first = frame.columns["box.first"].astype(np.int64)
        self._last = frame.columns["box.last"].astype(np.int64)
        self._first_box = np.concatenate(
            ([0], np.cumsum(frame.columns["start.boxes"], dtype=np.int64))
        )

    def cores_of(self, start: int) -> int:
        """Return the number of cores that a start holds."""
        boxes = slice(self._first_box[start], self._first_box[start + 1])
        return int((self._last[boxes] - self._first[boxes] + 1).sum())

    def of(self, start: int) -> list[Place]:
        """Return the nodes of a start, in order of their numbers."""
        cores: dict[int, int] = {}
        ends = self._first_core
        for box in range(self._first_box[start], self._first_box[start + 1]):
            first, last = int(self._first[box]), int(self._last[box])
            node = bisect_right(ends, first) - 1
            while first <= last:
                until = min(last + 1, ends[node + 1])
                cores[node] = cores.get(node, 0) + until - first
                first, node = until, node + 1
        return [Place(node, count) for node, count in sorted(cores.items())]


def job_changes(frame: Frame) -> Iterator[JobChange]:
    """Yield the begins and ends of computing periods in chronological order.

    At one instant periods end before others begin; a period that ends at the instant of its begin
    does both at once. Periods that last at the end of the simulation end then.
    """
    columns = frame.columns
    end_s = periods_of(frame).end_s.tolist()
    times_s, jobs = columns["start.time_s"].tolist(), columns["start.job"].tolist()
    ends = iter([*_ends_in_order(frame), (math.inf, -1)])
    end = next(ends)
    for start, (time_s, job) in enumerate(zip(times_s, jobs, strict=True)):
        while end[0] <= time_s:
            if times_s[end[1]] < end[0]:
                yield JobChange(end[0], jobs[end[1]], end[1], False)
            end = next(ends)
        yield JobChange(time_s, job, start, True)
        if end_s[start] <= time_s:
            yield JobChange(time_s, job, start, False)
    while end[1] >= 0:
        if times_s[end[1]] < end[0]:
            yield JobChange(end[0], jobs[end[1]], end[1], False)
        end = next(ends)
    for start, job in enumerate(jobs):
        if math.isnan(end_s[start]):
            yield JobChange(frame.about["now_s"], job, start, False)


def _ends_in_order(frame: Frame) -> list[tuple[float, int]]:
    """Return time, s, and row of `start` of the ends of periods, in chronological order."""
    columns = frame.columns
    paused = columns["pause.start"].astype(np.int64)
    final = periods_of(frame).last[columns["end.job"]]
    is_end = (final >= 0) & ~np.isin(final, paused)
    times_s = np.concatenate([columns["pause.time_s"], columns["end.time_s"][is_end]])
    starts = np.concatenate([paused, final[is_end]])
    order = np.argsort(times_s, kind="stable")
    return list(zip(times_s[order].tolist(), starts[order].tolist(), strict=True))
