"""Which nodes are on, asleep, or on the way; and that they only go where a node can."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from hpcosim_protocol import NodeGroup, PowerState
from hpcosim_server.physics.cluster import Cluster
from hpcosim_server.record.recording import Recording

NEXT: Mapping[PowerState, PowerState] = {
    "on": "switching_off",
    "switching_off": "sleeping",
    "sleeping": "switching_on",
    "switching_on": "on",
}
"""The only transitions there are: each state has one that may follow it."""


class IllegalTransition(Exception):  # noqa: N818 - it is our own fault
    """The simulator is at fault: a node was to go where none can.

    Args:
        node: which.
        after: where it was to go.
        history: when it entered which state.
    """

    def __init__(
        self, node: int, after: PowerState, history: list[tuple[float, PowerState]]
    ) -> None:
        super().__init__(node, after, history)
        self.node = node
        self.after = after
        self.history = history

    def __str__(self) -> str:
        been = ", ".join(f"{state} at {time_s} s" for time_s, state in self.history)
        return f"node {self.node} can't go to {self.after}; it was {been or 'on all along'}"


class NodePower:
    """The power state of every node. All are on at the start.

    Attributes:
        state: of each node.
        since_s: when each entered it.
        shutdowns: how often a node began to be switched off.

    Args:
        cluster: their energies are metered there.
        recording: every change is noted there.
        rng: for the times of transitions that vary.
    """

    def __init__(self, cluster: Cluster, recording: Recording, rng: np.random.Generator) -> None:
        self._cluster = cluster
        self._recording = recording
        self._rng = rng
        self.state: list[PowerState] = ["on"] * len(cluster.capacity)
        self.since_s = [-math.inf] * len(cluster.capacity)
        self.shutdowns = 0

    def enter(self, now_s: float, node: int, after: PowerState) -> float:
        """Let a node enter a state, and return for how long it will last.

        Returns:
            Seconds; infinity for `on` and `sleeping`, which last until somebody ends them.

        Raises:
            IllegalTransition: it can't from the one it is in, or has tasks.
        """
        before, cluster = self.state[node], self._cluster
        idle = not any(cluster.levels([node])[0])
        if NEXT[before] != after or not idle:
            raise IllegalTransition(node, after, self._recording.power_history(node))
        group = cluster.group_of[node]
        cluster.meters[group].switch(now_s, before, after)
        self.state[node] = after
        self.since_s[node] = now_s
        self._recording.powered(now_s, node, after)
        self.shutdowns += after == "switching_off"
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
