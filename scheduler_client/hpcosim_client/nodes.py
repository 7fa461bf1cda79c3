"""The nodes as the scheduler knows them, and the choice of nodes for a job."""

from __future__ import annotations

import math

import numpy as np

from hpcosim_client.free_resources import FreeResources, fill, usable_nodes
from hpcosim_client.job import Allocation, Bools, Floats, Ints, Job
from hpcosim_protocol import Platform, PowerState


class NodePool(FreeResources):
    """Resources, power states and properties of all nodes, as arrays with one element per node.

    `FreeResources` has the free resources and finds places for jobs.

    Attributes:
        group: int64[nodes], index of the node group.
        ops_per_s: float64[nodes], operations per second of a core.
        static_w: float64[nodes], power of a node that computes, without its cores, in W.
        dynamic_w: float64[nodes], further power of each core that computes, in W.
        memory_mb: float64[nodes]; 0: unknown.
        failed, drained: numbers of the nodes that failed or accept no new jobs.
        power: power state of each node, as reported by the server or as just decided.
        power_since_s: when each node entered its power state, simulated seconds.
        on: bool[nodes], whether the node is on and no decision switches it off.
        can_sleep: bool[nodes], whether the node can be switched off and on.
        switch_on_s, switch_off_s: float64[nodes], duration of switching, in seconds; 0 for nodes
            that cannot be switched.
        cycle_j: float64[nodes], energy of switching the node off and on again, in J.
        largest: number of cores of the largest node.
    """

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        groups = platform.nodes
        self.group: Ints = np.repeat(np.arange(len(groups)), [group.count for group in groups])
        self.ops_per_s: Floats = np.array([group.ops_per_s for group in groups])[self.group]
        self.static_w: Floats = np.array([group.static_w for group in groups])[self.group]
        self.dynamic_w: Floats = np.array([group.dynamic_w for group in groups])[self.group]
        self.memory_mb: Floats = np.array([group.memory_mb for group in groups])[self.group]
        self.power: list[PowerState] = ["on"] * len(self.capacity)
        self.on = np.ones(len(self.capacity), dtype=np.bool_)
        self._jobs: Ints = np.zeros_like(self.capacity)
        self._taken: dict[int, Ints] = {}  # nodes of jobs that `_jobs` lacks, by their identity
        self._given: list[Ints] = []  # nodes of jobs that left, which `_jobs` still has
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
        self._goes_off = np.zeros(len(self.capacity), dtype=np.bool_)
        self._withheld: dict[int, int] = {}  # free cores of nodes that cannot be allocated
        self._returns_s: dict[int, float] = {}  # when the power state permits allocation again
        self.failed: set[int] = set()
        self.drained: set[int] = set()
        self.largest = int(self.capacity.max())

    @property
    def jobs(self) -> Ints:
        """Number of jobs that hold cores of each node, int64[nodes]."""
        self._update_jobs()
        return self._jobs

    def _update_jobs(self) -> None:
        # Few policies read `jobs`: a job that starts and ends between two readings costs nothing.
        if self._taken:
            np.add.at(self._jobs, np.concatenate(list(self._taken.values())), 1)
            self._taken.clear()
        if self._given:
            np.subtract.at(self._jobs, np.concatenate(self._given), 1)
            self._given.clear()

    def find_soonest_on(self, job: Job) -> Allocation | None:
        """Return free cores for a job, in the order of `soonest_first`; None: there are too few."""
        if job.cores > self.free_cores or self.on.all():
            return self.find(job)
        if job.demand is not None:
            return self.place(job, self.soonest_first(self._every))
        usable = usable_nodes(job, self.free, self.capacity)
        return fill(job, self.soonest_first(usable), self.free)

    def idle(self) -> Bools:
        """Return bool[nodes]: the nodes that are on and hold no job."""
        idle: Bools = self.on & (self.jobs == 0)
        return idle

    def unused(self, state: PowerState) -> list[int]:
        """Return the numbers of nodes without a job in a power state other than `on`."""
        off = np.flatnonzero(~self.on & (self.jobs == 0)).tolist()
        return [node for node in off if self.power[node] == state and node not in self.failed]

    def expected_on_s(self, now_s: float) -> Floats:
        """Return when each node would be on if it were switched on now.

        Returns:
            float64[nodes], simulated seconds; `now_s` for nodes that are on.
        """
        return np.maximum(self._from_s, now_s) + self._boot_s

    def must_be_woken(self) -> Bools:
        """Return bool[nodes]: whether the node stays off until it is switched on."""
        return self._goes_off

    def soonest_first(self, nodes: Ints) -> Ints:
        """Sort node numbers: nodes that are on, then booting nodes, then others. Stable."""
        return nodes[np.lexsort((self._from_s[nodes], self._boot_s[nodes]))]

    def idle_cores(self, nodes: Ints) -> Ints:
        """Return the number of cores of each of these nodes that no job holds, on or off."""
        cores = self.free[nodes]
        if self._withheld:
            kept = [self._withheld.get(node, 0) for node in nodes.tolist()]
            cores = cores + np.array(kept, dtype=np.int64)
        return cores

    def take(self, allocation: Allocation, *, of_snapshot: bool = False) -> None:
        """Occupy free cores and other resources.

        Args:
            of_snapshot: whether it is of a job of a snapshot, which may share its cores with jobs
                whose suspension follows, and whose nodes may be withheld from others by now.
        """
        if of_snapshot:
            self._add_cores(allocation, -1)
        else:
            if self.single_core:
                self.free[allocation.nodes] = 0  # a third of the time of a subtraction
            else:
                self.free[allocation.nodes] -= allocation.cores_per_node
            self.free_cores -= allocation.cores
        if id(allocation.nodes) in self._taken:  # another job shares the array
            self._update_jobs()
        self._taken[id(allocation.nodes)] = allocation.nodes
        if allocation.held is not None:
            self.amounts[allocation.held.slots] -= allocation.held.amounts

    def give_back(self, allocation: Allocation, *, suspended: bool = False) -> None:
        """Free the resources of an allocation; undoes `take`.

        Args:
            suspended: whether the cores are free already; see `suspend`.
        """
        if self._taken.pop(id(allocation.nodes), None) is None:
            self._given.append(allocation.nodes)
        if allocation.held is not None:
            self.amounts[allocation.held.slots] += allocation.held.amounts
        if suspended:
            return
        if self._withheld:
            self._add_cores(allocation, 1)
            return
        if self.single_core:
            self.free[allocation.nodes] = 1
        else:
            self.free[allocation.nodes] += allocation.cores_per_node
        self.free_cores += allocation.cores

    def suspend(self, allocation: Allocation) -> None:
        """Free the cores of an allocation, whose job keeps its other resources."""
        self._add_cores(allocation, 1)

    def resume(self, allocation: Allocation) -> None:
        """Occupy the cores of an allocation again; undoes `suspend`."""
        self._add_cores(allocation, -1)

    def can_be_given(self, node: int) -> bool:
        """Return whether the power state of a node permits its allocation."""
        return node not in self._withheld

    def set_power(
        self, node: int, state: PowerState, since_s: float, returns_s: float | None
    ) -> None:
        """Set the power state of a node.

        Args:
            since_s: when the node entered it, simulated seconds.
            returns_s: when the node can be allocated again, simulated seconds; None: now.
        """
        self.power[node] = state
        self.power_since_s[node] = since_s
        self.on[node] = state == "on" and node not in self.failed
        self._goes_off[node] = state in _GOING_OFF
        self._boot_s[node] = self.switch_on_s[node] if state in _GOING_OFF else 0.0
        # The expected end of switching.
        lasts_s = {"switching_on": self.switch_on_s, "switching_off": self.switch_off_s}.get(state)
        self._from_s[node] = -math.inf if lasts_s is None else since_s + float(lasts_s[node])
        if returns_s is not None:
            self.withhold(node, returns_s)
            return
        self._returns_s.pop(node, None)
        self._offer_again(node)

    def withhold(self, node: int, returns_s: float) -> None:
        """Withhold a node from allocation until its next power state, expected at `returns_s`."""
        self.on[node] = False
        self._returns_s[node] = returns_s
        self._hide(node)

    def fail(self, node: int) -> None:
        """Withhold a node that failed until it is repaired."""
        self.failed.add(node)
        self.on[node] = False
        self._hide(node)

    def drain(self, node: int) -> None:
        """Withhold a node from new jobs until it is repaired. It keeps its power state."""
        self.drained.add(node)
        self._hide(node)

    def repair(self, node: int, now_s: float) -> None:
        """Offer a node again that failed or was drained. A node that failed is on."""
        self.drained.discard(node)
        if node in self.failed:
            self.failed.remove(node)
            self.set_power(node, "on", now_s, None)
        self._offer_again(node)

    def returning(self) -> list[tuple[float, int, int]]:
        """Return (simulated second, node, free cores) of each node that is withheld.

        The time is infinite for nodes that failed or are drained.
        """
        gone = self.failed | self.drained
        return [
            (math.inf if node in gone else self._returns_s[node], node, cores)
            for node, cores in self._withheld.items()
        ]

    def going_off(self) -> frozenset[int]:
        """Return the numbers of the nodes whose power state does not permit their allocation."""
        return frozenset(self._returns_s)

    def unavailable(self) -> list[int]:
        """Return the numbers of the nodes that failed or are drained."""
        return sorted(self.failed | self.drained)

    def _hide(self, node: int) -> None:
        if node not in self._withheld:
            self._withheld[node] = int(self.free[node])
        self.free_cores -= int(self.free[node])
        self.free[node] = 0

    def _offer_again(self, node: int) -> None:
        """Offer the free cores of a node unless there is another reason to withhold it."""
        gone = node in self.failed or node in self.drained or node in self._returns_s
        if node in self._withheld and not gone:
            given = self._withheld.pop(node)
            self.free[node] += given
            self.free_cores += given

    def _add_cores(self, allocation: Allocation, sign: int) -> None:
        """Add the cores of an allocation to the free ones, or subtract them."""
        for node, cores in allocation.by_node():
            if node in self._withheld:
                self._withheld[node] += sign * cores
            else:
                self.free[node] += sign * cores
                self.free_cores += sign * cores


_GOING_OFF = ("switching_off", "sleeping")
