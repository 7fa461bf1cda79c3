"""Upper bounds of the power of nodes, from what a scheduler knows."""

from __future__ import annotations

import numpy as np

from hpcosim_client.job import Floats, Ints, Job
from hpcosim_client.nodes import NodePool
from hpcosim_protocol import NodeGroup, Platform, PowerState


class PowerBounds:
    """Upper bounds of the power of every node (section 5.5 of the specification).

    The bound of a node that computes is exact for nodes with one processor. On a node with several
    processors the scheduler does not know which of them has the tasks, and the bound is that of
    the most expensive distribution.

    Args:
        platform: the cluster.
        nodes: its nodes.
        switches: whether a power manager may switch nodes off.

    Attributes:
        awake_w: float64[nodes], node that is on without a job, also while it is switched off, in W.
        booting_w: float64[nodes], node that is switched on, in W; 0: it cannot be switched.
        least_core_w: the least power that a core adds when it computes, on any node in any state,
            in W; 0: there is none, or nodes can be switched.
    """

    def __init__(self, platform: Platform, nodes: NodePool, *, switches: bool = True) -> None:
        groups = platform.nodes
        self._group, self._capacity = nodes.group, nodes.capacity
        self._tasks_w = np.full((len(groups), nodes.largest + 1), np.nan)
        for row, group in enumerate(groups):
            self._tasks_w[row, : group.cores + 1] = _computing_w(group)
        states = [group.power_states for group in groups]
        idle_w = np.array([group.idle_w for group in groups])
        off_w = np.array([0.0 if each is None else each.switch_off_w for each in states])
        on_w = np.array([0.0 if each is None else each.switch_on_w for each in states])
        sleep_w = np.array([np.inf if each is None else each.sleep_w for each in states])
        awake_w = np.maximum(idle_w, off_w) if switches else idle_w
        self.awake_w: Floats = awake_w[self._group]
        self.booting_w: Floats = on_w[self._group]
        cores_w = np.diff(self._tasks_w, axis=1)
        cores_w[:, 0] = self._tasks_w[:, 1] - np.maximum(idle_w, off_w)
        switched = any(each is not None for each in states)
        self.least_core_w = 0.0 if switched else max(float(np.nanmin(cores_w)), 0.0)
        self._going_off_w: Floats = off_w[self._group]
        self._sleep_w: Floats = sleep_w[self._group]

    def excludes(self, job: Job, power_w: float, limit_w: float) -> bool:
        """Return whether the cores of a job exceed a limit wherever they are, beside other power.

        Args:
            job: a waiting job.
            power_w: power without the job, W.
            limit_w: the limit, W.
        """
        return self.least_core_w > 0.0 and power_w + self.least_core_w * job.cores > limit_w

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
            tasks: int64[..., n], tasks on each of `nodes`. More tasks than cores count as a full
                node: a job that overruns its request still has its cores when others are expected.
        """
        bounds: Floats = self._tasks_w[self._group[nodes], np.minimum(tasks, self._capacity[nodes])]
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
