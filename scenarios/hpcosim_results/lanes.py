"""The cores that jobs hold, chosen for a Gantt chart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcosim_results.errors import ReadResultsError

Box = tuple[int, int]
"""First and last of adjacent cores, numbered through all nodes."""

MANY_NODES = 24
"""Number of nodes of a job from which arrays are faster than a loop over the nodes."""

EMPTY, SHARED, WHOLE = 0, 1, 2


class Lanes:
    """Assigns cores to jobs.

    Results have the number of cores of a job on each node, not the cores themselves. On each node a
    job gets the lowest adjacent free cores that are enough. If there are none, it gets the longest
    runs of adjacent free cores, so that it has few boxes.

    Args:
        cores_by_node: number of cores of each node.
    """

    def __init__(self, cores_by_node: Sequence[int]) -> None:
        self._first = [0, *accumulate(cores_by_node)]
        self._capacity = np.array(cores_by_node, np.int64)
        self._full = [(1 << cores) - 1 for cores in cores_by_node]
        # A bit for each free core of a node that jobs share; unused for a node in use `WHOLE`.
        self._free = list(self._full)
        self._use = bytearray(len(self._full))
        self._uses = np.frombuffer(self._use, np.uint8)  # the same memory
        self._held: dict[int, list[tuple[int, int]] | NDArray[Any]] = {}

    def take(self, job: int, nodes: Sequence[int], cores: Sequence[int] | None) -> list[Box]:
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
        if len(nodes) and not 0 <= min(nodes) <= max(nodes) < len(self._full):
            raise ReadResultsError(f"expected nodes from 0 to {len(self._full) - 1}")
        if len(nodes) >= MANY_NODES:
            numbers = np.sort(np.asarray(nodes, np.int64))
            whole = cores is None or np.array_equal(cores, self._capacity[nodes])
            if whole and not self._uses[numbers].any() and np.all(np.diff(numbers)):
                return self._take_whole(job, numbers)
        counts = [self._full[node].bit_length() for node in nodes] if cores is None else cores
        return self._take_each(job, sorted(zip(nodes, counts, strict=True)))

    def release(self, job: int) -> None:
        """Release all cores of a job; a job without cores is ignored."""
        held = self._held.pop(job, ())
        if isinstance(held, np.ndarray):
            self._uses[held] = EMPTY
            return
        for node, mask in held:
            if self._use[node] == WHOLE:
                self._use[node] = EMPTY
                continue
            self._free[node] |= mask
            self._use[node] = EMPTY if self._free[node] == self._full[node] else SHARED

    def _take_whole(self, job: int, nodes: NDArray[np.int64]) -> list[Box]:
        """Give a job all cores of nodes that are empty, in ascending order."""
        self._uses[nodes] = WHOLE
        self._held[job] = nodes
        gaps = np.flatnonzero(np.diff(nodes) != 1)
        firsts = nodes[np.concatenate([[0], gaps + 1])].tolist()
        lasts = nodes[np.concatenate([gaps, [len(nodes) - 1]])].tolist()
        return [
            (self._first[first], self._first[last + 1] - 1)
            for first, last in zip(firsts, lasts, strict=True)
        ]

    def _take_each(self, job: int, parts: list[tuple[int, int]]) -> list[Box]:
        """Give a job cores of nodes: pairs of node and number of cores, in ascending order."""
        held: list[tuple[int, int]] = []
        found: list[Box] = []
        for node, cores in parts:
            first_core = self._first[node]
            free = 0 if self._use[node] == WHOLE else self._free[node]
            if cores < 1 or cores > free.bit_count():
                raise ReadResultsError(
                    f"it takes {cores} cores of node {node}, of which {free.bit_count()} are free"
                )
            if free == self._full[node] and cores == free.bit_length():
                self._use[node] = WHOLE
                held.append((node, free))
                runs = [(0, cores - 1)]
            else:
                mask = _chosen(free, cores)
                self._free[node] = free ^ mask
                self._use[node] = SHARED
                held.append((node, mask))
                runs = _runs(mask)
            for first, last in runs:
                if found and found[-1][1] + 1 == first_core + first:
                    found[-1] = (found[-1][0], first_core + last)
                else:
                    found.append((first_core + first, first_core + last))
        self._held[job] = held
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
