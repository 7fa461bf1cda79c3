"""Upper bounds of the power of nodes, from what a scheduler knows."""

from __future__ import annotations

import numpy as np

from hpcosim_client.job import Floats, Ints
from hpcosim_client.nodes import NodePool
from hpcosim_protocol import NodeGroup, Platform, PowerState


class PowerBounds:
    """Upper bounds of the power of every node (section 5.5 of the specification).

    The bound of a node that computes is exact for nodes with one processor. On a node with several
    processors the scheduler does not know which of them has the tasks, and the bound is that of
    the most expensive distribution.

    Attributes:
        awake_w: float64[nodes], node that is on without a job, also while it is switched off, in W.
        booting_w: float64[nodes], node that is switched on, in W; 0: it cannot be switched.
    """

    def __init__(self, platform: Platform, nodes: NodePool) -> None:
        groups = platform.nodes
        self._group = nodes.group
        self._tasks_w = np.full((len(groups), nodes.largest + 1), np.nan)
        for row, group in enumerate(groups):
            self._tasks_w[row, : group.cores + 1] = _computing_w(group)
        states = [group.power_states for group in groups]
        idle_w = np.array([group.idle_w for group in groups])
        off_w = np.array([0.0 if each is None else each.switch_off_w for each in states])
        on_w = np.array([0.0 if each is None else each.switch_on_w for each in states])
        sleep_w = np.array([np.inf if each is None else each.sleep_w for each in states])
        self.awake_w: Floats = np.maximum(idle_w, off_w)[self._group]
        self.booting_w: Floats = on_w[self._group]
        self._going_off_w: Floats = off_w[self._group]
        self._sleep_w: Floats = sleep_w[self._group]

    def resting_w(self, power: list[PowerState]) -> Floats:
        """Return float64[nodes]: nodes without a job until their next switching on, in W.

        A node that is on or booting can be switched off at any time by a power manager.

        Args:
            power: power state of each node.
        """
        state = np.array(power)
        off_w = np.maximum(self._going_off_w, self._sleep_w)
        return np.select(
            [state == "on", state == "sleeping", state == "switching_off"],
            [self.awake_w, self._sleep_w, off_w],
            np.maximum(self.awake_w, self.booting_w),
        )

    def computing_w(self, nodes: Ints, tasks: Ints) -> Floats:
        """Return the bound of nodes that are on, by their numbers of tasks, in W.

        Args:
            nodes: int64[n], node numbers.
            tasks: int64[..., n], tasks on each of `nodes`.
        """
        bounds: Floats = self._tasks_w[self._group[nodes], tasks]
        return bounds


def _computing_w(group: NodeGroup) -> list[float]:
    """Return the bound of a node that is on with 0 to `group.cores` tasks, in W."""
    processors = group.processors
    activation = sorted((p.static_w * (1.0 - p.idle_fraction) for p in processors), reverse=True)
    core = sorted((p.dynamic_w for p in processors for _ in range(p.cores)), reverse=True)
    return [
        group.idle_w + sum(activation[:tasks]) + sum(core[:tasks])
        for tasks in range(group.cores + 1)
    ]
