"""The free cores of every node, as the scheduler knows them."""

from __future__ import annotations

import math

import numpy as np

from hpcosim_client.job import Floats, Ints, Job, Place
from hpcosim_protocol import Platform, PowerState


class NodePool:
    """Free cores by node, and what the nodes are like.

    NumPy, because choosing among nodes means looking at all of them.

    Attributes:
        group: int64[nodes], the node group of each.
        ops_per_s: float64[nodes], operations a core does in a second.
        static_w, dynamic_w: float64[nodes], power of a node with tasks, and of each such core.
        memory_mb: float64[nodes], 0: not told.
        capacity: int64[nodes], cores of each node.
        free: int64[nodes], those a job can be given now.
        power: the power state of each node.
        power_since_s: when each entered it.
        on: bool[nodes], whether a node is on, and stays so as far as was decided.
        free_cores: the sum of `free`.
        jobs: int64[nodes], how many jobs hold cores of each.
        largest: cores of the largest node.
        single_core: no node has more than one core.
    """

    def __init__(self, platform: Platform) -> None:
        groups = platform.nodes
        self.group: Ints = np.repeat(np.arange(len(groups)), [group.count for group in groups])
        self.ops_per_s: Floats = np.array([group.ops_per_s for group in groups])[self.group]
        self.static_w: Floats = np.array([group.static_w for group in groups])[self.group]
        self.dynamic_w: Floats = np.array([group.dynamic_w for group in groups])[self.group]
        self.memory_mb: Floats = np.array([group.memory_mb for group in groups])[self.group]
        self.capacity: Ints = np.array(platform.cores_by_node(), dtype=np.int64)
        self.free: Ints = self.capacity.copy()
        self.power: list[PowerState] = ["on"] * len(self.capacity)
        self.on = np.ones(len(self.capacity), dtype=np.bool_)
        self.free_cores = int(self.capacity.sum())
        self.jobs: Ints = np.zeros_like(self.capacity)
        self.power_since_s = [-math.inf] * len(self.capacity)
        # Free cores of the nodes that can't be given, and when they are expected back.
        self._withheld: dict[int, tuple[int, float]] = {}
        self.largest = int(self.capacity.max())
        self.single_core = self.largest == 1

    def find(self, job: Job) -> Place | None:
        """Return the lowest-numbered nodes on which the job could start now, if there are."""
        if job.cores > self.free_cores:
            return None
        return find_place(job, self.free, self.capacity)

    def take(self, place: Place) -> None:
        """Take the cores of a place, on nodes that can be given."""
        self.free[place.nodes] -= place.held
        self.jobs[place.nodes] += 1
        self.free_cores -= place.cores

    def give_back(self, place: Place) -> None:
        """Undo a `take`."""
        self.jobs[place.nodes] -= 1
        if self._withheld:
            self._give_back_to_some(place)
        else:
            self.free[place.nodes] += place.held
            self.free_cores += place.cores

    def can_be_given(self, node: int) -> bool:
        """Return whether a node can be given to a job as far as its power state goes."""
        return node not in self._withheld

    def set_power(
        self, node: int, state: PowerState, since_s: float, returns_s: float | None
    ) -> None:
        """Note that a node entered a power state.

        Args:
            node: which.
            state: as the server told.
            since_s: when.
            returns_s: when it can be given to a job again; None: it can be.
        """
        self.power[node] = state
        self.power_since_s[node] = since_s
        self.on[node] = state == "on"
        if returns_s is not None:
            self.withhold(node, returns_s)
        elif node in self._withheld:
            given, _ = self._withheld.pop(node)
            self.free[node] += given
            self.free_cores += given

    def withhold(self, node: int, returns_s: float) -> None:
        """Give a node to no job until its power is told anew; it is expected at `returns_s`."""
        self.on[node] = False
        cores = self._withheld[node][0] if node in self._withheld else int(self.free[node])
        self._withheld[node] = (cores, returns_s)
        self.free_cores -= int(self.free[node])
        self.free[node] = 0

    def returning(self) -> list[tuple[float, int, int]]:
        """Return when which node is expected to be given again, with how many free cores."""
        return [(at_s, node, cores) for node, (cores, at_s) in self._withheld.items()]

    def _give_back_to_some(self, place: Place) -> None:
        for node, cores in zip(place.nodes.tolist(), place.held.tolist(), strict=True):
            if node in self._withheld:
                kept, returns_s = self._withheld[node]
                self._withheld[node] = (kept + cores, returns_s)
            else:
                self.free[node] += cores
                self.free_cores += cores


def find_place(job: Job, free: Ints, capacity: Ints) -> Place | None:
    """Return the lowest-numbered nodes with room for a job, if there are.

    Args:
        job: it.
        free: int64[nodes], free cores.
        capacity: int64[nodes], all cores.
    """
    return fill(job, usable_nodes(job, free, capacity), free)


def usable_nodes(job: Job, free: Ints, capacity: Ints) -> Ints:
    """Return the nodes a job may use at least a core of, in ascending order; see `find_place`."""
    if job.placement == "one_node":
        usable = free >= job.cores
    elif job.placement == "whole_nodes":
        usable = free == capacity
    else:
        usable = free > 0
    return np.asarray(usable.nonzero()[0])


def fill(job: Job, nodes: Ints, free: Ints) -> Place | None:
    """Return the place of a job that fills these nodes in this order, if they have room.

    Args:
        job: it.
        nodes: node numbers, with a free core at least; those left over are not taken.
        free: int64[nodes of the cluster], free cores.
    """
    nodes = nodes[: job.cores]  # it can't need more
    offered = free[nodes]
    total = offered.cumsum()
    last = int(total.searchsorted(job.cores))
    if last == len(total):
        return None
    nodes, held = nodes[: last + 1], offered[: last + 1]
    tasks = held.copy()
    tasks[last] -= total[last] - job.cores
    if job.placement == "whole_nodes":
        return Place(nodes, tasks, held, int(total[last]))
    return Place(nodes, tasks, tasks, job.cores)
