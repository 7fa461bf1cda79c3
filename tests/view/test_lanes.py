"""The cores that jobs get in a Gantt chart."""

from __future__ import annotations

from itertools import accumulate
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_view.errors import ReadResultsError
from hpcosim_view.run import lanes as module
from hpcosim_view.run.lanes import Lanes


class SlowLanes:
    """The rule of `Lanes` with a set of free cores for each node."""

    def __init__(self, cores_by_node: list[int]) -> None:
        first = [0, *accumulate(cores_by_node)]
        self.free = [
            set(range(first[i], first[i] + cores)) for i, cores in enumerate(cores_by_node)
        ]
        self.held: dict[int, list[tuple[int, int]]] = {}

    def take(self, job: int, nodes: list[int], cores: list[int]) -> list[tuple[int, int]]:
        """Give a job its cores and return its boxes."""
        self.held[job] = []
        for node, count in zip(nodes, cores, strict=True):
            while count:
                runs = runs_of(self.free[node])
                long_enough = [run for run in runs if len(run) >= count]
                run = long_enough[0] if long_enough else max(runs, key=len)
                for core in run[:count]:
                    self.free[node].remove(core)
                    self.held[job].append((node, core))
                count -= len(run[:count])
        return [(run[0], run[-1]) for run in runs_of({core for _, core in self.held[job]})]

    def release(self, job: int) -> None:
        """Release all cores of a job."""
        for node, core in self.held.pop(job):
            self.free[node].add(core)


def runs_of(cores: set[int]) -> list[list[int]]:
    """Return the runs of adjacent cores, in ascending order."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return runs


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 2**32), st.integers(1, 8)
)
def test_lanes_are_those_of_the_rule_with_sets(
    cores_by_node: list[int], seed: int, many: int
) -> None:
    """Random jobs get the same boxes, with arrays for few or many nodes."""
    rng = np.random.default_rng(seed)
    fast, slow = Lanes(cores_by_node), SlowLanes(cores_by_node)
    with mock.patch.object(module, "MANY_NODES", many):
        for job in range(30):
            if slow.held and rng.random() < 0.5:
                gone = int(rng.choice(list(slow.held)))
                fast.release(gone)
                slow.release(gone)
            room = [node for node, free in enumerate(slow.free) if free]
            nodes = rng.permutation(room)[: rng.integers(len(room) + 1)].tolist()
            whole = rng.random(len(nodes)) < 0.5
            cores = [
                len(slow.free[node]) if all_ else int(rng.integers(len(slow.free[node]))) + 1
                for node, all_ in zip(nodes, whole, strict=True)
            ]
            if nodes:
                assert fast.take(job, nodes, cores) == slow.take(job, nodes, cores)


@pytest.mark.parametrize("many", [1, 24])
@pytest.mark.parametrize(
    ("nodes", "cores", "message"),
    [
        ([2], [1], "expected nodes from 0 to 1"),
        ([-1], [1], "expected nodes from 0 to 1"),
        ([0], [3], "takes 3 cores of node 0, of which 2 are free"),
        ([1], [2], "takes 2 cores of node 1, of which 1 are free"),
        ([0], [0], "takes 0 cores"),
        ([0, 0], [2, 2], "distinct|of which 0 are free"),
    ],
)
def test_cores_that_are_not_free_are_an_error(
    many: int, nodes: list[int], cores: list[int], message: str
) -> None:
    """Unknown nodes, and more cores than are free, are rejected."""
    lanes = Lanes([2, 2])
    lanes.take(1, [1], [1])
    with (
        mock.patch.object(module, "MANY_NODES", many),
        pytest.raises(ReadResultsError, match=message),
    ):
        lanes.take(2, nodes, cores)


def test_a_job_without_numbers_of_cores_gets_whole_nodes() -> None:
    """All cores of two adjacent nodes are one box."""
    assert Lanes([4, 2, 3]).take(7, [1, 2], None) == [(4, 8)]
