"""A profile of the power of the cluster, by requested times and upper bounds of nodes' power."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from copy import copy

import numpy as np

from hpcosim_client.job import Allocation, Floats, Ints, Job
from hpcosim_client.nodes import NodePool
from hpcosim_client.profiles import Reservation
from hpcosim_client.scheduler_state import Signal
from hpcosim_client.view import View
from hpcosim_protocol import NodeGroup, Platform, PowerState

ROUNDING = 1e-9
"""Relative difference by which the sum of the nodes' powers may exceed the cap."""


class PowerProfile:
    """An upper bound of the power of all nodes from now on, and the cap.

    The power is constant in steps. A job draws power until its requested end. A job that overruns
    its request draws power for ever here, because its end is unknown.

    Args:
        resting_w: float64[nodes], see `PowerBounds.resting_w`; None: it is computed.

    Attributes:
        times_s: begin of each step, simulated seconds, ascending; the first is now.
    """

    def __init__(
        self,
        view: View,
        bounds: PowerBounds,
        cap: Signal,
        running: Iterable[Job],
        resting_w: Floats | None = None,
    ) -> None:
        now_s, self._bounds = view.now_s, bounds
        held = [
            (_end_s(job, now_s), job.allocation) for job in running if job.allocation is not None
        ]
        changes_s = [at_s for at_s, _ in cap.forecast if at_s > now_s]
        ends_s = [end_s for end_s, _ in held if end_s < math.inf]
        self.times_s: list[float] = sorted({now_s, *changes_s, *ends_s})
        self._limits_w = _values(cap, self.times_s) * (1.0 + ROUNDING)
        # Nodes that are not on boot before they compute.
        self._least_computing_w: Floats = np.where(view.nodes.on, 0.0, bounds.booting_w)
        resting_w = bounds.resting_w(view.nodes.power) if resting_w is None else resting_w
        self._woken_w: Floats = np.maximum(resting_w, bounds.awake_w)
        self._can_wake = bool((self._woken_w > resting_w).any())
        is_held = np.zeros(len(resting_w), dtype=np.bool_)
        ending: Ints = np.zeros((len(self.times_s), len(resting_w)), dtype=np.int64)
        for end_s, (nodes, tasks, *_) in held:
            ending[bisect_left(self.times_s, end_s) - 1, nodes] += tasks  # in its last step
            is_held[nodes] = True
        self._tasks: Ints = ending[::-1].cumsum(axis=0)[::-1]
        self._resting_w: Floats = np.where(is_held, self._woken_w, resting_w)
        # A sleeping node stays on after the first job that wakes it.
        self._woken_s: Floats = np.full(len(resting_w), np.inf)
        steps, every = slice(0, len(self.times_s)), np.arange(len(resting_w))
        self._node_w = self._power_w(steps, every, self._tasks, self._woken_s)
        self._total_w: Floats = self._node_w.sum(axis=1)

    def fits(self, job: Job, reservation: Reservation) -> bool:
        """Return whether the power with a job stays within the cap, up to its requested end.

        The other steps count too: a node that is woken for the job draws more power afterwards.
        """
        steps, power_w, _ = self._with(job, reservation)
        added_w = (power_w - self._node_w[steps, _allocation(reservation).nodes]).sum(axis=1)
        fits = (self._total_w[steps] + added_w <= self._limits_w[steps]) | (added_w <= 0.0)
        return bool(fits.all())

    def excludes(self, job: Job, start_s: float) -> bool:
        """Return whether a job, whose requested time is > 0, starts at no cores at a time."""
        step = bisect_right(self.times_s, start_s) - 1
        limit_w = float(self._limits_w[step]) * (1.0 + ROUNDING)
        return self._bounds.excludes(job, float(self._total_w[step]), limit_w)

    def step_at(self, at_s: float) -> PowerStep:
        """Return the step at a time, simulated seconds."""
        step = bisect_right(self.times_s, at_s) - 1
        return PowerStep(self._bounds, self._tasks[step], self._node_w[step])

    def with_job(self, job: Job, reservation: Reservation) -> PowerProfile:
        """Return the profile with a job. The job must fit, see `fits`."""
        after = copy(self)
        after._split([reservation.start_s, reservation.runs_s + job.requested_s])
        nodes = _allocation(reservation).nodes
        steps, power_w, tasks = after._with(job, reservation)
        added_w = power_w - after._node_w[steps, nodes]
        after._total_w[steps] += added_w.sum(axis=1)
        after._tasks[steps, nodes] = tasks
        after._node_w[steps, nodes] = power_w
        after._woken_s = self._woken_s.copy()
        after._woken_s[nodes] = np.minimum(self._woken_s[nodes], reservation.start_s)
        return after

    def _with(self, job: Job, reservation: Reservation) -> tuple[slice, Floats, Ints]:
        """Return the steps that a job changes, and then the power and tasks of its nodes."""
        (nodes, added, *_), times_s = _allocation(reservation), self.times_s
        start_s, end_s = reservation.start_s, reservation.runs_s + job.requested_s
        first, last = bisect_right(times_s, start_s) - 1, bisect_left(times_s, end_s)
        steps = slice(first, len(times_s) if self._can_wake else max(first, last))
        tasks = self._tasks[steps, nodes]
        tasks[: max(last - first, 0)] += added
        woken_s = np.minimum(self._woken_s[nodes], start_s)
        return steps, self._power_w(steps, nodes, tasks, woken_s), tasks

    def _power_w(self, steps: slice, nodes: Ints, tasks: Ints, woken_s: Floats) -> Floats:
        """Return float64[steps, n], power of n nodes in W."""
        computing_w = self._bounds.computing_w(nodes, tasks)
        computing_w = np.maximum(computing_w, self._least_computing_w[nodes])
        resting_w = self._resting_w[nodes]
        if self._can_wake:
            ends_s = np.array([*self.times_s[1:], math.inf])[steps]
            is_woken = ends_s[:, None] > woken_s
            resting_w = np.where(is_woken, self._woken_w[nodes], resting_w)
        return np.where(tasks > 0, computing_w, resting_w)

    def _split(self, at_s: Iterable[float]) -> None:
        """Make steps begin at these times, in arrays of its own."""
        times_s = sorted({*self.times_s, *at_s})
        rows = np.searchsorted(self.times_s, times_s, side="right") - 1
        self.times_s = times_s
        self._tasks, self._node_w = self._tasks[rows], self._node_w[rows]
        self._total_w, self._limits_w = self._total_w[rows], self._limits_w[rows]


class PowerStep:
    """The power of the cluster at one time, without nodes that can be switched.

    Args:
        tasks: int64[nodes], tasks of each node.
        node_w: float64[nodes], power of each node, W.
    """

    def __init__(self, bounds: PowerBounds, tasks: Ints, node_w: Floats) -> None:
        self._bounds, self._tasks, self._node_w = bounds, tasks, node_w
        self.power_w = float(node_w.sum())

    def power_with_w(self, allocation: Allocation) -> float:
        """Return the total power with a job that computes, W."""
        nodes = allocation.nodes
        after_w = self._bounds.computing_w(nodes, self._tasks[nodes] + allocation.tasks)
        return self.power_w + float((after_w - self._node_w[nodes]).sum())

    def with_job(self, allocation: Allocation) -> PowerStep:
        """Return the step with a job that computes."""
        nodes, tasks, node_w = allocation.nodes, self._tasks.copy(), self._node_w.copy()
        tasks[nodes] += allocation.tasks
        node_w[nodes] = self._bounds.computing_w(nodes, tasks[nodes])
        return PowerStep(self._bounds, tasks, node_w)


def _values(signal: Signal, at_s: list[float]) -> Floats:
    """Return the values of a signal at these times."""
    values: Floats = signal.values[np.searchsorted(signal.times_s, at_s, side="right") - 1]
    return values


def _end_s(job: Job, now_s: float) -> float:
    end_s = job.start_s + job.suspended_s + job.requested_s
    return end_s if end_s > now_s else math.inf


def _allocation(reservation: Reservation) -> Allocation:
    assert reservation.allocation is not None
    return reservation.allocation


class PowerBounds:
    """Upper bounds of the power of every node (section 5.5 of the specification).

    The bound of a node that computes is exact for nodes with one processor. On a node with several
    processors the scheduler does not know which of them has the tasks, and the bound is that of
    the most expensive distribution.

    Args:
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
        """Return whether the cores of a job exceed a limit wherever they are."""
        return self.least_core_w > 0.0 and power_w + self.least_core_w * job.cores > limit_w

    def resting_w(self, power: list[PowerState]) -> Floats:
        """Return float64[nodes]: nodes without a job until their next switching on, in W.

        A node that is on or booting can be switched off at any time by a power manager.
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
