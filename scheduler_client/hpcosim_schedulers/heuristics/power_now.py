"""The power of the cluster at present, kept from pass to pass of a scheduler."""

from __future__ import annotations

import math

import numpy as np

from hpcosim_client.free_resources import fill
from hpcosim_client.job import Allocation, Bools, Floats, Ints, Job
from hpcosim_client.profiles import Reservation
from hpcosim_client.view import View
from hpcosim_protocol import Placement, PowerState
from hpcosim_schedulers.heuristics.power_bounds import PowerBounds
from hpcosim_schedulers.heuristics.power_profile import ROUNDING


class PowerNow:
    """The first step of a `PowerProfile`, for many tests of whether a job can start now.

    A job that does not fit now does not fit in the profile. An event changes few jobs: only their
    nodes are counted anew.

    Args:
        view: the view.
        bounds: power of the nodes.

    Attributes:
        power_w: total power, W.
        resting_w: float64[nodes], see `PowerBounds.resting_w`.
        added_per_core_w: float64[nodes], power that a node adds for each core if all its cores
            compute, W. Nodes with the least go first.
    """

    def __init__(self, view: View, bounds: PowerBounds) -> None:
        self._bounds, self._every = bounds, np.arange(len(view.nodes.free))
        self._tasks: Ints = np.zeros_like(view.nodes.free)
        self._held: dict[int, Allocation] = {}
        self._ends_s: dict[int, float] = {}
        self._states: list[PowerState] = []
        # Least number of cores that does not fit now, by placement.
        self._too_many: dict[Placement, int] = {}
        self._count(view)

    @property
    def first_end_s(self) -> float:
        """First requested end of a running job, simulated seconds, if no node ever boots."""
        return min(self._ends_s.values(), default=math.inf)

    def follow(self, view: View) -> None:
        """Begin a pass: count the jobs that started or ended since the last one."""
        running = view.running
        for job_id in self._held.keys() - running.keys():
            allocation = self._held.pop(job_id)
            self._tasks[allocation.nodes] -= allocation.tasks
            del self._ends_s[job_id]
        for job_id in running.keys() - self._held.keys():
            self._add(running[job_id], running[job_id].allocation)
        self._count(view)

    def find(self, job: Job, cap_w: float) -> Allocation | None:
        """Return cores for a job; None: it cannot start now.

        Args:
            job: a waiting job with a requested time > 0.
            cap_w: the power cap, W.
        """
        limit_w = cap_w * (1.0 + ROUNDING)
        only_cores = job.demand is None
        if only_cores and job.cores >= self._too_many.get(job.placement, math.inf):
            return None
        if self._bounds.excludes(job, self.power_w, limit_w * (1.0 + ROUNDING)):
            return None
        allocation = self._fill(job)
        if allocation is not None:
            nodes = allocation.nodes
            after_w = self._bounds.computing_w(nodes, self._tasks[nodes] + allocation.tasks)
            after_w = np.maximum(after_w, self._least_computing_w[nodes])
            added_w = float((after_w - self._node_w[nodes]).sum())
            if added_w <= 0.0 or self.power_w + added_w <= limit_w:
                return allocation
        if self._more_is_more and only_cores and job.placement != "one_node":
            self._too_many[job.placement] = job.cores
        return None

    def start(self, job: Job, reservation: Reservation, now_s: float) -> None:
        """Count a job that the pass has started."""
        allocation = reservation.allocation
        assert allocation is not None
        nodes = allocation.nodes
        if reservation.runs_s + job.requested_s > now_s:
            self._add(job, allocation)
            self._free[nodes] -= allocation.cores_per_node
            node_w = self._bounds.computing_w(nodes, self._tasks[nodes])
            self._node_w[nodes] = np.maximum(node_w, self._least_computing_w[nodes])
        else:  # it takes no time, but its nodes stay on
            woken_w = np.maximum(self.resting_w, self._bounds.awake_w)[nodes]
            self._node_w[nodes] = np.where(self._tasks[nodes] > 0, self._node_w[nodes], woken_w)
        self.power_w = float(self._node_w.sum())
        self._too_many = {}

    def _count(self, view: View) -> None:
        """Compute the power of every node."""
        if view.nodes.power != self._states:
            self._set_states(view)
        self._nodes = view.nodes
        self._free: Ints = view.nodes.free.copy()
        self._capacity: Ints = view.nodes.capacity
        # Nodes that are not on boot before they compute.
        self._least_computing_w: Floats = np.where(view.nodes.on, 0.0, self._bounds.booting_w)
        computing_w = self._bounds.computing_w(self._every, self._tasks)
        computing_w = np.maximum(computing_w, self._least_computing_w)
        self._node_w: Floats = np.where(self._tasks > 0, computing_w, self.resting_w)
        self.power_w = float(self._node_w.sum())
        self._too_many = {}

    def _set_states(self, view: View) -> None:
        bounds, every, capacity = self._bounds, self._every, view.nodes.capacity
        self._states = list(view.nodes.power)
        self.resting_w: Floats = bounds.resting_w(self._states)
        added_w = bounds.computing_w(every, capacity) - self.resting_w
        self.added_per_core_w: Floats = added_w / capacity
        self._in_order = np.argsort(self.added_per_core_w, kind="stable")
        # Whether a job of more cores on the same nodes, and then further ones, draws more power.
        awake_w = np.maximum(self.resting_w, bounds.awake_w)
        self._more_is_more = bool((bounds.computing_w(every, np.ones_like(every)) >= awake_w).all())

    def _fill(self, job: Job) -> Allocation | None:
        """Return the free cores of the nodes that add the least power; see `NodeProfile.find`."""
        if job.demand is not None:
            return self._nodes.place(job, self._in_order)
        nodes, free = self._in_order, self._free[self._in_order]
        usable: Bools
        if job.placement == "one_node":
            usable = free >= job.cores
        elif job.placement == "whole_nodes":
            usable = free == self._capacity[nodes]
        else:
            usable = free > 0
        return fill(job, nodes[usable], self._free)

    def _add(self, job: Job, allocation: Allocation | None) -> None:
        if allocation is not None:
            self._held[job.job_id] = allocation
            self._ends_s[job.job_id] = job.start_s + job.suspended_s + job.requested_s
            self._tasks[allocation.nodes] += allocation.tasks
