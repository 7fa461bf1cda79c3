"""The free cores of every node, as the scheduler knows them."""

from __future__ import annotations

import math

import numpy as np

from hpcosim_client.job import Bools, Floats, Ints, Job, Place
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
        power: the power state of each node, as told, or as just decided.
        power_since_s: when each entered it.
        on: bool[nodes], whether a node is on, and stays so as far as was decided.
        can_sleep: bool[nodes], whether a node can be switched off and on at all.
        switch_on_s, switch_off_s: float64[nodes], seconds that switching takes; 0 where it can't.
        cycle_j: float64[nodes], energy of switching a node off and on again.
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
        states = [group.power_states for group in groups]
        self.can_sleep = np.array([state is not None for state in states])[self.group]
        on_s = [0.0 if state is None else state.switch_on_s for state in states]
        off_s = [0.0 if state is None else state.switch_off_s for state in states]
        self.switch_on_s: Floats = np.array(on_s)[self.group]
        self.switch_off_s: Floats = np.array(off_s)[self.group]
        cycle_j = [0.0 if state is None else state.cycle_j for state in states]
        self.cycle_j: Floats = np.array(cycle_j)[self.group]
        # A node can be on `_boot_s` after it is told to, or after `_from_s` if that is later.
        self._from_s: Floats = np.full(len(self.capacity), -math.inf)
        self._boot_s: Floats = np.zeros(len(self.capacity))
        # Free cores of the nodes that can't be given, and when they are expected back.
        self._withheld: dict[int, tuple[int, float]] = {}
        self.largest = int(self.capacity.max())
        self.single_core = self.largest == 1

    def find(self, job: Job) -> Place | None:
        """Return the lowest-numbered nodes on which the job could start now; None: no room."""
        if job.cores > self.free_cores:
            return None
        return find_place(job, self.free, self.capacity)

    def find_soonest_on(self, job: Job) -> Place | None:
        """Return where the job could start now, on nodes as `soonest_first`; None: no room."""
        if job.cores > self.free_cores or self.on.all():
            return self.find(job)
        usable = usable_nodes(job, self.free, self.capacity)
        return fill(job, self.soonest_first(usable), self.free)

    def idle(self) -> Bools:
        """Return bool[nodes], the nodes that are on and held by no job."""
        idle: Bools = self.on & (self.jobs == 0)
        return idle

    def unused(self, state: PowerState) -> list[int]:
        """Return the nodes in a power state other than `on` that are held by no job, by number."""
        off = np.flatnonzero(~self.on & (self.jobs == 0)).tolist()
        return [node for node in off if self.power[node] == state]

    def expected_on_s(self, now_s: float) -> Floats:
        """Return when each node is expected to be on if that is wanted from now on.

        Returns:
            float64[nodes]; a node that is on is so now.
        """
        return np.maximum(self._from_s, now_s) + self._boot_s

    def must_be_woken(self) -> Bools:
        """Return bool[nodes], whether each is on again only after it is told to."""
        return self._boot_s > 0.0

    def soonest_first(self, nodes: Ints) -> Ints:
        """Return nodes that are on, then those being switched on, then others; ties as given."""
        return nodes[np.lexsort((self._from_s[nodes], self._boot_s[nodes]))]

    def idle_cores(self, nodes: Ints) -> Ints:
        """Return how many cores of each of these nodes no job holds, whether it is on or not."""
        cores = self.free[nodes]
        if self._withheld:
            kept = [self._withheld.get(node, (0, 0.0))[0] for node in nodes.tolist()]
            cores = cores + np.array(kept, dtype=np.int64)
        return cores

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
        """Note that a node entered a power state at `since_s`.

        At `returns_s` it can be given to a job again; None: it can be now.
        """
        self.power[node] = state
        self.power_since_s[node] = since_s
        self.on[node] = state == "on"
        self._boot_s[node] = self.switch_on_s[node] if state in _GOING_OFF else 0.0
        # When it is expected to leave a state that it leaves by itself.
        lasts_s = {"switching_on": self.switch_on_s, "switching_off": self.switch_off_s}.get(state)
        self._from_s[node] = -math.inf if lasts_s is None else since_s + float(lasts_s[node])
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


_GOING_OFF = ("switching_off", "sleeping")


def find_place(job: Job, free: Ints, capacity: Ints) -> Place | None:
    """Return the lowest-numbered nodes with room for a job, if there are.

    `free` and `capacity` are the free and all cores of each node, int64[nodes].
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
        job: a waiting job.
        nodes: node numbers, each with a free core at least; those that are not needed are left.
        free: int64[nodes of the cluster], free cores.
    """
    nodes = nodes[: job.cores]  # it needs no more
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
