"""Which nodes are on, asleep, or on the way; they go only where a node can."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from hpcosim_protocol import NodeGroup, PowerState
from hpcosim_server.errors import IllegalTransition
from hpcosim_server.physics.cluster import Cluster

NEXT: Mapping[PowerState, PowerState] = {
    "on": "switching_off",
    "switching_off": "sleeping",
    "sleeping": "switching_on",
    "switching_on": "on",
}
"""The legal transitions: each state has one that may follow it."""


class NodePower:
    """The power state of every node. All are on at the start.

    Args:
        cluster: meters the energy of the nodes.
        rng: draws the times of transitions that vary.

    Attributes:
        state: the state of each node.
        since_s: when each node entered it, s; -infinity: it was in it from the start.
        off: how many nodes are not on.
    """

    def __init__(self, cluster: Cluster, rng: np.random.Generator) -> None:
        self._cluster = cluster
        self._rng = rng
        self.state: list[PowerState] = ["on"] * len(cluster.capacity)
        self.since_s = [-math.inf] * len(cluster.capacity)
        self.off = 0

    def are_on(self, nodes: Sequence[int]) -> bool:
        """Tell whether all these nodes are on."""
        if not self.off:  # there is no need to look at each
            return True
        state = self.state
        return not [node for node in nodes if state[node] != "on"]

    def enter(self, now_s: float, node: int, after: PowerState) -> float:
        """Let a node enter a state, and return for how long the state will last.

        Returns:
            Seconds; infinity for `on` and `sleeping`, which last until a decision ends them.

        Raises:
            IllegalTransition: the state may not follow the present one, or the node has tasks.
        """
        before, cluster = self.state[node], self._cluster
        if NEXT[before] != after:
            why = f"it has been {before} since {self.since_s[node]} s"
            raise IllegalTransition(f"node {node}", before, after, why)
        if any(cluster.levels([node])[0]):
            raise IllegalTransition(f"node {node}", before, after, "it has tasks")
        group = cluster.group_of[node]
        cluster.meters[group].switch(now_s, before, after)
        self.state[node] = after
        self.since_s[node] = now_s
        self.off += (before == "on") - (after == "on")
        return self._lasts_s(cluster.kinds[group], after)

    def _lasts_s(self, group: NodeGroup, state: PowerState) -> float:
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
