"""Power states of the nodes and their legal transitions, and failed and drained nodes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hpcosim_protocol import NodeGroup, PowerState
from hpcosim_sim.errors import IllegalTransition, Rejection
from hpcosim_sim.physics.cluster import Cluster

NEXT: Mapping[PowerState, PowerState] = {
    "on": "switching_off",
    "switching_off": "sleeping",
    "sleeping": "switching_on",
    "switching_on": "on",
}
"""The only state that may follow each state."""


class NodePower:
    """The power state of every node. All nodes are on at the start.

    Args:
        rng: generator for the durations of transitions that have a standard deviation.

    Attributes:
        state: power state of each node; of a failed node, the state before the failure.
        since_s: simulation time at which each node entered its state, s; -infinity: the node has
            been in it from the start.
        nodes_off: number of nodes that are not on.
    """

    def __init__(self, cluster: Cluster, rng: np.random.Generator) -> None:
        self._cluster = cluster
        self._rng = rng
        self.state: list[PowerState] = ["on"] * len(cluster.capacity)
        self.since_s = [-math.inf] * len(cluster.capacity)
        self.nodes_off = 0

    def are_on(self, nodes: Sequence[int]) -> bool:
        """Return whether all these nodes are on."""
        if not self.nodes_off:  # the common case, without a loop
            return True
        state = self.state
        return not [node for node in nodes if state[node] != "on"]

    def expected_on_s(self, now_s: float, nodes: Sequence[int]) -> float:
        """Return when the last of some nodes is on if they are switched on now, s.

        It counts with the mean time of switching on. A node that is late is on now.
        """
        latest_s = now_s
        if self.are_on(nodes):
            return latest_s
        for node in nodes:
            times = self._cluster.kinds[self._cluster.group_of[node]].power_states
            state = self.state[node]
            if times is not None and state in ("sleeping", "switching_on"):
                since_s = now_s if state == "sleeping" else self.since_s[node]
                latest_s = max(latest_s, since_s + times.switch_on_s)
        return latest_s

    def enter(self, now_s: float, node: int, after: PowerState) -> float:
        """Move a node to a power state.

        Returns:
            Duration of the new state, s; infinity for `on` and `sleeping`.

        Raises:
            IllegalTransition: `after` may not follow the current state, or the node has tasks.
        """
        before, cluster = self.state[node], self._cluster
        if NEXT[before] != after:
            why = f"{before} since {self.since_s[node]} s"
            raise IllegalTransition(f"node {node}", before, after, why)
        if any(cluster.levels([node])[0]):
            raise IllegalTransition(f"node {node}", before, after, "the node has tasks")
        group = cluster.group_of[node]
        cluster.switch(now_s, node, before, after)
        self.state[node] = after
        self.since_s[node] = now_s
        self.nodes_off += (before == "on") - (after == "on")
        return self._duration_s(cluster.kinds[group], after)

    def fail(self, now_s: float, node: int) -> None:
        """Note that a node without tasks failed. It draws no power until `repair`."""
        self._cluster.switch(now_s, node, self.state[node], "down")

    def repair(self, now_s: float, node: int) -> None:
        """Note that a failed node is repaired. It is on."""
        self._cluster.switch(now_s, node, "down", "on")
        if self.state[node] != "on":
            self.nodes_off -= 1
            self.state[node] = "on"
            self.since_s[node] = now_s

    def _duration_s(self, group: NodeGroup, state: PowerState) -> float:
        times = group.power_states
        if times is None or state in ("on", "sleeping"):
            return math.inf
        if state == "switching_on":
            mean_s, deviation_s = times.switch_on_s, times.switch_on_sd_s
        else:
            mean_s, deviation_s = times.switch_off_s, times.switch_off_sd_s
        if deviation_s == 0.0:
            return mean_s
        return max(float(self._rng.normal(mean_s, deviation_s)), 0.0)


class Availability:
    """Which nodes failed and which are drained. All nodes are available at the start.

    Attributes:
        failed: time of the failure of each failed node, s, by node number.
        drained: time of the drain of each drained node, s, by node number. A drained node may fail.
        are_all: whether every node is available.
    """

    __slots__ = ("are_all", "drained", "failed")

    def __init__(self) -> None:
        self.failed: dict[int, float] = {}
        self.drained: dict[int, float] = {}
        self.are_all = True

    def has(self, node: int) -> bool:
        """Return whether a node is available."""
        return node not in self.failed and node not in self.drained

    def fail(self, now_s: float, node: int) -> bool:
        """Note that a node failed; return False if it had failed already."""
        if node in self.failed:
            return False
        self.failed[node] = now_s
        self.are_all = False
        return True

    def drain(self, now_s: float, node: int) -> bool:
        """Note that a node is drained; return False if it was drained or had failed already."""
        if not self.has(node):
            return False
        self.drained[node] = now_s
        self.are_all = False
        return True

    def repair(self, node: int) -> bool:
        """Note that a node is available again; return False if it was available already."""
        failed = self.failed.pop(node, None)
        drained = self.drained.pop(node, None)
        self.are_all = not (self.failed or self.drained)
        return failed is not None or drained is not None

    def check(self, nodes: Iterable[int]) -> None:
        """Check that all nodes of an allocation are available."""
        for node in nodes:
            if not self.has(node):
                state = "failed" if node in self.failed else "drained"
                raise Rejection(
                    "node_unavailable",
                    f"allocate_job.nodes: node {node} is {state}; expected available nodes",
                )
