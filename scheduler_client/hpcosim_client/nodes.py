"""The nodes as the scheduler knows them, and the choice of nodes for a job."""

from __future__ import annotations

import math

import numpy as np

from hpcosim_client.job import Allocation, Bools, Floats, Ints, Job
from hpcosim_protocol import Platform, PowerState


class NodePool:
    """Free cores, power states and properties of all nodes, as arrays with one element per node.

    Attributes:
        group: int64[nodes], index of the node group.
        ops_per_s: float64[nodes], operations per second of a core.
        static_w: float64[nodes], power of a node that computes, without its cores, in W.
        dynamic_w: float64[nodes], further power of each core that computes, in W.
        memory_mb: float64[nodes]; 0: unknown.
        capacity: int64[nodes], number of cores.
        free: int64[nodes], cores that can be allocated now.
        power: power state of each node, as reported by the server or as just decided.
        power_since_s: when each node entered its power state, simulated seconds.
        on: bool[nodes], whether the node is on and no decision switches it off.
        can_sleep: bool[nodes], whether the node can be switched off and on.
        switch_on_s, switch_off_s: float64[nodes], duration of switching, in seconds; 0 for nodes
            that cannot be switched.
        cycle_j: float64[nodes], energy of switching the node off and on again, in J.
        free_cores: the sum of `free`.
        jobs: int64[nodes], number of jobs that hold cores of the node.
        largest: number of cores of the largest node.
        single_core: whether every node has one core.
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
        # A node that is switched on at t is on at max(t, _from_s) + _boot_s.
        self._from_s: Floats = np.full(len(self.capacity), -math.inf)
        self._boot_s: Floats = np.zeros(len(self.capacity))
        # Nodes that cannot be allocated: their free cores, and when they are expected back.
        self._withheld: dict[int, tuple[int, float]] = {}
        self.largest = int(self.capacity.max())
        self.single_core = self.largest == 1

    def find(self, job: Job) -> Allocation | None:
        """Return the lowest-numbered free cores for a job; None: there are too few."""
        if job.cores > self.free_cores:
            return None
        return find_cores(job, self.free, self.capacity)

    def find_soonest_on(self, job: Job) -> Allocation | None:
        """Return free cores for a job, in the order of `soonest_first`; None: there are too few."""
        if job.cores > self.free_cores or self.on.all():
            return self.find(job)
        usable = usable_nodes(job, self.free, self.capacity)
        return fill(job, self.soonest_first(usable), self.free)

    def idle(self) -> Bools:
        """Return bool[nodes]: the nodes that are on and hold no job."""
        idle: Bools = self.on & (self.jobs == 0)
        return idle

    def unused(self, state: PowerState) -> list[int]:
        """Return the numbers of nodes without a job in a power state other than `on`."""
        off = np.flatnonzero(~self.on & (self.jobs == 0)).tolist()
        return [node for node in off if self.power[node] == state]

    def expected_on_s(self, now_s: float) -> Floats:
        """Return when each node would be on if it were switched on now.

        Returns:
            float64[nodes], simulated seconds; `now_s` for nodes that are on.
        """
        return np.maximum(self._from_s, now_s) + self._boot_s

    def must_be_woken(self) -> Bools:
        """Return bool[nodes]: whether the node stays off until it is switched on."""
        return self._boot_s > 0.0

    def soonest_first(self, nodes: Ints) -> Ints:
        """Sort node numbers: nodes that are on, then booting nodes, then others. Stable."""
        return nodes[np.lexsort((self._from_s[nodes], self._boot_s[nodes]))]

    def idle_cores(self, nodes: Ints) -> Ints:
        """Return the number of cores of each of these nodes that no job holds, on or off."""
        cores = self.free[nodes]
        if self._withheld:
            kept = [self._withheld.get(node, (0, 0.0))[0] for node in nodes.tolist()]
            cores = cores + np.array(kept, dtype=np.int64)
        return cores

    def take(self, allocation: Allocation) -> None:
        """Occupy free cores."""
        self.free[allocation.nodes] -= allocation.cores_per_node
        self.jobs[allocation.nodes] += 1
        self.free_cores -= allocation.cores

    def give_back(self, allocation: Allocation) -> None:
        """Free the cores of an allocation; undoes `take`."""
        self.jobs[allocation.nodes] -= 1
        if self._withheld:
            self._give_back_to_some(allocation)
        else:
            self.free[allocation.nodes] += allocation.cores_per_node
            self.free_cores += allocation.cores

    def can_be_given(self, node: int) -> bool:
        """Return whether the power state of a node permits its allocation."""
        return node not in self._withheld

    def set_power(
        self, node: int, state: PowerState, since_s: float, returns_s: float | None
    ) -> None:
        """Set the power state of a node.

        Args:
            node: number of the node.
            state: the power state.
            since_s: when the node entered it, simulated seconds.
            returns_s: when the node can be allocated again, simulated seconds; None: now.
        """
        self.power[node] = state
        self.power_since_s[node] = since_s
        self.on[node] = state == "on"
        self._boot_s[node] = self.switch_on_s[node] if state in _GOING_OFF else 0.0
        # The expected end of switching.
        lasts_s = {"switching_on": self.switch_on_s, "switching_off": self.switch_off_s}.get(state)
        self._from_s[node] = -math.inf if lasts_s is None else since_s + float(lasts_s[node])
        if returns_s is not None:
            self.withhold(node, returns_s)
        elif node in self._withheld:
            given, _ = self._withheld.pop(node)
            self.free[node] += given
            self.free_cores += given

    def withhold(self, node: int, returns_s: float) -> None:
        """Withhold a node from allocation until its next power state, expected at `returns_s`."""
        self.on[node] = False
        cores = self._withheld[node][0] if node in self._withheld else int(self.free[node])
        self._withheld[node] = (cores, returns_s)
        self.free_cores -= int(self.free[node])
        self.free[node] = 0

    def returning(self) -> list[tuple[float, int, int]]:
        """Return (simulated second, node, free cores) of each node that is withheld."""
        return [(at_s, node, cores) for node, (cores, at_s) in self._withheld.items()]

    def _give_back_to_some(self, allocation: Allocation) -> None:
        for node, cores in allocation.by_node():
            if node in self._withheld:
                kept, returns_s = self._withheld[node]
                self._withheld[node] = (kept + cores, returns_s)
            else:
                self.free[node] += cores
                self.free_cores += cores


_GOING_OFF = ("switching_off", "sleeping")


def find_cores(job: Job, free: Ints, capacity: Ints) -> Allocation | None:
    """Return the lowest-numbered free cores for a job; None: there are too few.

    Args:
        job: a waiting job.
        free: int64[nodes], free cores of each node.
        capacity: int64[nodes], all cores of each node.
    """
    return fill(job, usable_nodes(job, free, capacity), free)


def usable_nodes(job: Job, free: Ints, capacity: Ints) -> Ints:
    """Return the numbers of nodes with a core that the job may use, ascending; see `find_cores`."""
    if job.placement == "one_node":
        usable = free >= job.cores
    elif job.placement == "whole_nodes":
        usable = free == capacity
    else:
        usable = free > 0
    return np.asarray(usable.nonzero()[0])


def fill(job: Job, nodes: Ints, free: Ints) -> Allocation | None:
    """Return the cores of a job that fills nodes in the given order; None: there are too few.

    Args:
        job: a waiting job.
        nodes: numbers of nodes with free cores. The last ones are left out if not needed.
        free: int64[nodes of the cluster], free cores.
    """
    nodes = nodes[: job.cores]
    offered = free[nodes]
    total = offered.cumsum()
    last = int(total.searchsorted(job.cores))
    if last == len(total):
        return None
    nodes, held = nodes[: last + 1], offered[: last + 1]
    tasks = held.copy()
    tasks[last] -= total[last] - job.cores
    if job.placement == "whole_nodes":
        return Allocation(nodes, tasks, held, int(total[last]))
    return Allocation(nodes, tasks, tasks, job.cores)
