"""What several formats need of a run: names, the nodes of a start, running jobs in order."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_results.frame import Frame
from hpcosim_server.record.periods import PERIOD_ENDS
from hpcosim_server.record.recording import STATES

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
    """A job starts or ends.

    Attributes:
        time_s: simulated time, s.
        job: row of the job.
        start: index of the start.
        starts: True if it starts, False if it ends or the run ends before it.
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
    columns, start = frame.columns, frame.columns["start.job"]
    codes[start] = STATES.index("running")
    requeued = columns["pause.why"] != PERIOD_ENDS.index("suspended")
    last = np.full(len(codes), -1, np.int64)
    last[start] = np.arange(len(start))  # the last assignment counts
    ended = columns["pause.start"][requeued]
    codes[start[ended[last[start[ended]] == ended]]] = STATES.index("waiting")
    codes[frame.columns["end.job"]] = frame.columns["end.state"]
    return [STATES[code] for code in codes.tolist()]


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
    """Yield the starts and ends of jobs in chronological order.

    At one instant jobs end before others start; a job that ends at the instant of its start does
    both at once. Jobs that are running at the end of the run end then.
    """
    columns: dict[str, list[Any]] = {
        name: frame.columns[name].tolist()
        for name in ("start.job", "start.time_s", "end.job", "end.time_s")
    }
    end_s = by_job(frame, "end.job", "end.time_s").tolist()
    running: dict[int, int] = {}  # index of the start by row
    ends = zip(columns["end.time_s"], columns["end.job"], strict=True)
    end = next(ends, None)
    starts = zip(columns["start.time_s"], columns["start.job"], strict=True)
    for start, (time_s, job) in enumerate(starts):
        while end is not None and end[0] <= time_s:
            if end[1] in running:
                yield JobChange(end[0], end[1], running.pop(end[1]), False)
            end = next(ends, None)
        yield JobChange(time_s, job, start, True)
        if end_s[job] <= time_s:
            yield JobChange(time_s, job, start, False)
        else:
            running[job] = start
    while end is not None:
        if end[1] in running:
            yield JobChange(end[0], end[1], running.pop(end[1]), False)
        end = next(ends, None)
    for job, start in running.items():
        yield JobChange(frame.about["now_s"], job, start, False)
