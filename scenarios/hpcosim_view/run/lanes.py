"""The cores that jobs hold, chosen for a Gantt chart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_view.errors import ReadResultsError

Integers = Sequence[int] | NDArray[np.int64]
Box = tuple[int, int]
"""First and last of adjacent cores, numbered through all nodes."""

MANY_NODES = 24
"""Number of nodes of a job from which arrays are faster than a loop over the nodes."""

EMPTY, SHARED, WHOLE = 0, 1, 2


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Lanes:
    """Assigns cores to jobs.

    Results have the number of cores of a job on each node, not the cores themselves. On each node a
    job gets the lowest adjacent free cores that are enough. If there are none, it gets the longest
    runs of adjacent free cores, so that it has few boxes.
    """

    def __init__(self, cores_by_node: Sequence[int]) -> None:
        self._first = [0, *accumulate(cores_by_node)]
        self._capacity = np.array(cores_by_node, np.int64)
        self._full = [(1 << cores) - 1 for cores in cores_by_node]
        # A bit for each free core of a node that jobs share; unused for a node in use `WHOLE`.
        self._free = list(self._full)
        self._use = bytearray(len(self._full))
        self._uses = np.frombuffer(self._use, np.uint8)  # the same memory
        self._held: dict[int, list[tuple[int, int]]] = {}  # node and bits, by job
        self._held_whole: dict[int, NDArray[np.int64]] = {}  # further nodes, with all their cores

    def take(self, job: int, nodes: Integers, cores: Integers | None) -> list[Box]:
        """Give a job its cores, and return them as boxes in ascending order.

        Args:
            job: identifier of the job, for `release`.
            nodes: distinct node numbers.
            cores: number of cores on each of `nodes`; None: all cores of the nodes.

        Raises:
            ReadResultsError: the job already has cores, a node is unknown, or a node has too few
                free cores. The lanes must not be used after it.
        """
        if job in self._held:
            raise ReadResultsError("the job already holds cores")
        if len(nodes) >= MANY_NODES:
            return self._take_many(job, np.asarray(nodes, np.int64), cores)
        if len(nodes) and not 0 <= min(nodes) <= max(nodes) < len(self._full):
            raise self._unknown_node()
        if cores is None:
            cores = [self._full[node].bit_length() for node in nodes]
        self._held[job], found = self._take_each(sorted(zip(nodes, cores, strict=True)))
        return found

    def release(self, job: int) -> None:
        """Release all cores of a job; a job without cores is ignored."""
        whole = self._held_whole.pop(job, None)
        if whole is not None:
            self._uses[whole] = EMPTY
        for node, mask in self._held.pop(job, ()):
            if self._use[node] == WHOLE:
                self._use[node] = EMPTY
                continue
            self._free[node] |= mask
            self._use[node] = EMPTY if self._free[node] == self._full[node] else SHARED

    def _unknown_node(self) -> ReadResultsError:
        return ReadResultsError(f"expected nodes from 0 to {len(self._full) - 1}")

    def _take_many(self, job: int, nodes: NDArray[np.int64], wanted: Integers | None) -> list[Box]:
        """Give a job its cores: of nodes that are empty and that it fills, all at once."""
        if not 0 <= nodes.min() <= nodes.max() < len(self._full):
            raise self._unknown_node()
        cores = self._capacity[nodes] if wanted is None else np.asarray(wanted, np.int64)
        if not (np.diff(nodes) > 0).all():
            order = np.argsort(nodes, kind="stable")
            nodes, cores = nodes[order], cores[order]
            if not np.diff(nodes).all():
                raise ReadResultsError("expected distinct nodes")
        fills = (cores == self._capacity[nodes]) & (self._uses[nodes] == EMPTY)
        whole, rest = nodes[fills], ~fills
        self._uses[whole] = WHOLE
        self._held_whole[job] = whole
        parts = list(zip(nodes[rest].tolist(), cores[rest].tolist(), strict=True))
        self._held[job], found = self._take_each(parts)
        return _merged(sorted([*found, *self._boxes_of(whole)]))

    def _boxes_of(self, nodes: NDArray[np.int64]) -> list[Box]:
        """Return the boxes of all cores of nodes, which are in ascending order."""
        if not len(nodes):
            return []
        gaps = np.flatnonzero(np.diff(nodes) != 1)
        firsts = nodes[np.concatenate([[0], gaps + 1])].tolist()
        lasts = nodes[np.concatenate([gaps, [len(nodes) - 1]])].tolist()
        return [
            (self._first[first], self._first[last + 1] - 1)
            for first, last in zip(firsts, lasts, strict=True)
        ]

    def _take_each(self, parts: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[Box]]:
        """Take cores of nodes: pairs of node and number of cores, in ascending order."""
        held: list[tuple[int, int]] = []
        found: list[Box] = []
        for node, cores in parts:
            first_core, full = self._first[node], self._full[node]
            free = 0 if self._use[node] == WHOLE else self._free[node]
            if free == full and cores == free.bit_length():
                self._use[node] = WHOLE
                held.append((node, free))
                found.append((first_core, first_core + cores - 1))
                continue
            count = free.bit_count()
            if not 0 < cores <= count:
                raise ReadResultsError(
                    f"it takes {cores} cores of node {node}, of which {count} are free"
                )
            mask = free if cores == count else _chosen(free, cores)
            self._free[node] = free ^ mask
            self._use[node] = SHARED
            held.append((node, mask))
            first = (mask & -mask).bit_length() - 1
            if mask >> first == (1 << cores) - 1:  # adjacent cores, the usual case
                found.append((first_core + first, first_core + first + cores - 1))
            else:
                found += [(first_core + first, first_core + last) for first, last in _runs(mask)]
        return held, _merged(found)


def _merged(boxes: list[Box]) -> list[Box]:
    """Return ascending boxes with adjacent ones joined."""
    found: list[Box] = []
    after = -1  # the core after the last box
    for box in boxes:
        if box[0] == after:
            box = (found.pop()[0], box[1])
        found.append(box)
        after = box[1] + 1
    return found


def _chosen(free: int, count: int) -> int:
    """Return the bits that are chosen from those of `free`, at least `count`."""
    chosen = 0
    while count:
        starts, have = free, 1  # bits at which a run of `have` set bits starts
        while starts and have < count:
            more = min(have, count - have)
            starts, have = starts & (starts >> more), have + more
        if starts:
            return chosen | (starts & -starts) * ((1 << count) - 1)
        run = _longest(free)
        chosen, free, count = chosen | run, free ^ run, count - run.bit_count()
    return chosen


def _longest(bits: int) -> int:
    """Return the lowest of the longest runs of set bits."""
    starts, length = bits, 1
    while longer := starts & (bits >> length):
        starts, length = longer, length + 1
    return (starts & -starts) * ((1 << length) - 1)


def _runs(bits: int) -> list[Box]:
    """Return the first and last of each run of set bits, in ascending order."""
    found = []
    while bits:
        first = (bits & -bits).bit_length() - 1
        run = bits >> first
        length = (~run & (run + 1)).bit_length() - 1
        found.append((first, first + length - 1))
        bits ^= ((1 << length) - 1) << first
    return found


class LayoutError(ReadResultsError):
    """A job takes cores that are not free."""

    def __init__(self, start: int, what: str) -> None:
        super().__init__(what)
        self.start = start


class Starts(NamedTuple):
    """Begins of computing periods in chronological order.

    Attributes:
        period: number of the period.
        job: row of the job.
        time_s: start time, s.
        whole: whether the job holds all cores of its nodes.
        first: index of the first node in `nodes` and `tasks`; one more element than starts.
        tasks: number of tasks on each node.
    """

    period: Ints
    job: Ints
    time_s: Floats
    whole: NDArray[np.bool_]
    first: Ints
    nodes: Ints
    tasks: Ints


class Ends(NamedTuple):
    """Ends of computing periods: number of the period, and time, s."""

    period: Ints
    time_s: Floats


def boxes_of(lanes: Lanes, starts: Starts, ends: Ends) -> dict[str, Any]:
    """Return the columns of `start` and `box`.

    At one instant periods that began earlier end first. A period that lasts no time ends directly
    after its begin.

    Args:
        lanes: the free cores.
        ends: the ends of these periods or of periods before.

    Raises:
        LayoutError: a job takes cores that are not free.
    """
    count = len(starts.job)
    boxes: list[tuple[int, int]] = []
    boxes_of_start = np.zeros(count, np.int64)
    first, period, ended = starts.first.tolist(), starts.period.tolist(), ends.period.tolist()
    for event in _in_order(starts, ends).tolist():
        if event >= count:
            lanes.release(ended[event - count])
            continue
        part = slice(first[event], first[event + 1])
        nodes: Integers = starts.nodes[part]
        tasks: Integers = starts.tasks[part]
        if len(nodes) < MANY_NODES:
            nodes, tasks = starts.nodes[part].tolist(), starts.tasks[part].tolist()
        try:
            taken = lanes.take(period[event], nodes, None if starts.whole[event] else tasks)
        except ReadResultsError as error:
            raise LayoutError(event, str(error)) from None
        boxes_of_start[event] = len(taken)
        boxes += taken
    edges = np.array(boxes, np.int64).reshape(-1, 2)
    return {
        "start.job": starts.job,
        "start.time_s": starts.time_s,
        "start.boxes": boxes_of_start,
        "box.first": edges[:, 0],
        "box.last": edges[:, 1],
    }


def _in_order(starts: Starts, ends: Ends) -> Ints:
    """Return starts and ends in order: start i as i, end j as j + number of starts."""
    count = len(starts.job)
    number = np.arange(count)
    by_period = np.argsort(starts.period, kind="stable")
    sorted_periods = starts.period[by_period]
    at = np.searchsorted(sorted_periods, ends.period)
    among = at < count
    among[among] = sorted_periods[at[among]] == ends.period[among]
    start = np.full(len(ends.period), -1, np.int64)  # the start of each period that ends
    start[among] = by_period[at[among]]
    instant = among.copy()
    instant[among] = starts.time_s[start[among]] == ends.time_s[among]
    time_s = np.concatenate([starts.time_s, ends.time_s])
    group = np.concatenate([np.ones(count), instant])  # ends of earlier periods precede starts
    order = np.concatenate([number, start])
    is_end = np.arange(count + len(ends.period)) >= count
    return np.lexsort((is_end, order, group, time_s))
