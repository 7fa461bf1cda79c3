"""A profile of the power of the cluster, by requested run times, below a power cap."""

from __future__ import annotations

import math

import numpy as np

from hpcosim_client.heuristics.power_bounds import PowerBounds
from hpcosim_client.heuristics.reservation import Reservation
from hpcosim_client.job import Allocation, Bools, Floats, Ints, Job
from hpcosim_client.signals import Signal
from hpcosim_client.view import View

ROUNDING = 1e-9
"""Relative difference by which the sum of the nodes' powers may exceed the cap."""


class PowerProfile:
    """An upper bound of the power of all nodes from now on, and the cap.

    The power is constant in steps. A job draws power until its requested end. A job that overruns
    its request draws power for ever here, because its end is unknown.

    Args:
        view: the view, with the running jobs.
        bounds: power of the nodes.
        cap: the power cap, W.

    Attributes:
        times_s: begin of each step, simulated seconds, ascending; the first is now.
    """

    def __init__(self, view: View, bounds: PowerBounds, cap: Signal) -> None:
        now_s, self._bounds, self._cap = view.now_s, bounds, cap
        running = [
            (_end_s(job, now_s), job.allocation)
            for job in view.running.values()
            if job.allocation is not None
        ]
        changes_s = [at_s for at_s, _ in cap.forecast if at_s > now_s]
        ends_s = [end_s for end_s, _ in running if end_s < math.inf]
        self.times_s: Floats = np.unique([now_s, *changes_s, *ends_s])
        self._tasks: Ints = np.zeros((len(self.times_s), len(view.nodes.free)), dtype=np.int64)
        for end_s, allocation in running:
            steps = self.times_s < end_s
            self._tasks[np.ix_(steps, allocation.nodes)] += allocation.tasks
        self._resting_w = bounds.resting_w(view.nodes.power)
        # Nodes that are not on boot before they compute.
        self._least_computing_w = np.where(view.nodes.on, 0.0, bounds.booting_w)
        busy = view.nodes.jobs > 0
        self._resting_w[busy] = np.maximum(self._resting_w, bounds.awake_w)[busy]
        every = np.arange(len(busy))
        self._total_w = self._power_w(every, self._tasks, self._resting_w).sum(axis=1)

    def fits(self, job: Job, reservation: Reservation) -> bool:
        """Return whether the power with a job stays within the cap, up to its requested end.

        The other steps count too: a node that is woken for the job draws more power afterwards.
        """
        added_w, _, _ = self._added(job, reservation)
        limit_w = self._caps_w() * (1.0 + ROUNDING)
        return bool(((self._total_w + added_w <= limit_w) | (added_w <= 0.0)).all())

    def reserve(self, job: Job, reservation: Reservation) -> None:
        """Make a reservation for a job. It must fit, see `fits`."""
        for at_s in (reservation.start_s, reservation.runs_s + job.requested_s):
            self._split(at_s)
        added_w, tasks, resting_w = self._added(job, reservation)
        nodes = _allocation(reservation).nodes
        self._total_w = self._total_w + added_w
        self._tasks[:, nodes] = tasks
        self._resting_w[nodes] = resting_w

    def added_w(self, allocation: Allocation) -> float:
        """Return the power that an allocation adds to a cluster in which nothing runs, in W."""
        nodes, least_w = allocation.nodes, self._bounds.least_w
        return float((self._bounds.computing_w(nodes, allocation.tasks) - least_w[nodes]).sum())

    def _added(self, job: Job, reservation: Reservation) -> tuple[Floats, Ints, Floats]:
        """Return the added power of each step, and new tasks and resting power of the nodes."""
        nodes, added, _, _ = _allocation(reservation)
        during = self._during(reservation.start_s, reservation.runs_s + job.requested_s)
        before, before_w = self._tasks[:, nodes], self._resting_w[nodes]
        after = before + during[:, None] * added
        after_w = np.maximum(before_w, self._bounds.awake_w[nodes])
        power_w = self._power_w(nodes, after, after_w) - self._power_w(nodes, before, before_w)
        return power_w.sum(axis=1), after, after_w

    def _power_w(self, nodes: Ints, tasks: Ints, resting_w: Floats) -> Floats:
        """Return float64[steps, n], power of n nodes in W."""
        computing_w = self._bounds.computing_w(nodes, tasks)
        computing_w = np.maximum(computing_w, self._least_computing_w[nodes])
        return np.where(tasks > 0, computing_w, resting_w)

    def _during(self, start_s: float, end_s: float) -> Bools:
        """Return bool[steps]: whether any part of the step is from `start_s` to before `end_s`."""
        step_ends_s = np.append(self.times_s[1:], np.inf)
        during: Bools = (self.times_s < end_s) & (step_ends_s > start_s)
        return during

    def _caps_w(self) -> Floats:
        steps = np.searchsorted(self._cap.times_s, self.times_s, side="right") - 1
        caps_w: Floats = self._cap.values[steps]
        return caps_w

    def _split(self, at_s: float) -> None:
        """Make a step begin at a time."""
        step = int(np.searchsorted(self.times_s, at_s, side="right"))
        if self.times_s[step - 1] != at_s:
            self.times_s = np.insert(self.times_s, step, at_s)
            self._tasks = np.insert(self._tasks, step, self._tasks[step - 1], axis=0)
            self._total_w = np.insert(self._total_w, step, self._total_w[step - 1])


def _end_s(job: Job, now_s: float) -> float:
    end_s = job.start_s + job.requested_s
    return end_s if end_s > now_s else math.inf


def _allocation(reservation: Reservation) -> Allocation:
    assert reservation.allocation is not None
    return reservation.allocation
