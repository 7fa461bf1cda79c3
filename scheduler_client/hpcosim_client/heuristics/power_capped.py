"""EASY backfilling below a power cap."""

from __future__ import annotations

import numpy as np

from hpcosim_client.heuristics.list_scheduling import SUBMISSION
from hpcosim_client.heuristics.node_profile import NodeProfile, node_profile
from hpcosim_client.heuristics.power_aware import a_moment_after, with_boots
from hpcosim_client.heuristics.power_bounds import PowerBounds
from hpcosim_client.heuristics.power_profile import PowerProfile
from hpcosim_client.heuristics.reservation import Reservation
from hpcosim_client.job import Floats, Job
from hpcosim_client.nodes import fill, usable_nodes
from hpcosim_client.signals import Signal, signal_of
from hpcosim_client.view import Policy, View

CAP = "power_cap_w"
"""Name of the signal with the cap, W."""


def power_capped() -> Policy:
    """Return EASY (see `easy`) that keeps the power of all nodes within a cap.

    A job starts if its cores are free and if the power stays within the cap until its requested
    end: the power of running jobs by their requested times, of nodes that boot for jobs, and of all
    other nodes, whether idle, asleep or being switched off. A lower cap in the forecast counts from
    its time. The reservation of the head of the queue counts too, in cores and in power. Nodes that
    add the least power for each core go first.

    The power exceeds the cap only if the cap falls below the power of running jobs without being
    forecast, if a job overruns its requested time, if a boot takes longer than its mean time, or if
    a power manager switches on nodes in advance. Running jobs are never killed.

    A job is rejected when it is the head of the queue and would exceed every cap that is known,
    alone on a cluster whose other nodes idle or sleep.
    """
    bounds: list[PowerBounds] = []

    def decide(view: View) -> None:
        cap = signal_of(view.signals, CAP, "power-capped")
        if not bounds:
            bounds.append(PowerBounds(view.platform, view.nodes))
        if view.queue:
            _Pass(view, bounds[0], cap).run()
        if not view.queue:
            view.wake_on = SUBMISSION

    return decide


class _Pass:
    """One pass through the queue.

    Args:
        view: the view.
        bounds: power of the nodes.
        cap: the power cap, W.
    """

    def __init__(self, view: View, bounds: PowerBounds, cap: Signal) -> None:
        self._view, self._bounds, self._cap = view, bounds, cap
        self._cores: NodeProfile = node_profile(view, a_moment_after(view.now_s))
        self._power = PowerProfile(view, bounds, cap)
        self._order = _added_per_core_w(view, bounds)

    def run(self) -> None:
        """Start jobs until one does not fit, the head, then those that do not delay the head."""
        has_head = False
        for job in self._view.queue.values():
            if has_head and job.cores > self._view.nodes.free_cores:
                continue
            if self._started(job) or has_head:
                continue
            reservation = self._earliest(job)
            if reservation is not None:
                self._reserve(job, reservation)
            elif self._never_fits(job):
                self._view.reject(job)
                continue
            has_head = True

    def _started(self, job: Job) -> bool:
        now = self._at(job, self._view.now_s)
        if now is None or now.allocation is None or not self._view.start_at(job, now.allocation):
            return False
        self._reserve(job, now)
        return True

    def _reserve(self, job: Job, reservation: Reservation) -> None:
        self._cores.reserve(job, reservation)
        self._power.reserve(job, reservation)

    def _earliest(self, job: Job) -> Reservation | None:
        now_s = self._view.now_s
        for start_s in sorted({*self._cores.starts_s(job, now_s), *self._power.times_s.tolist()}):
            reservation = self._at(job, start_s)
            if reservation is not None:
                return reservation
        return None

    def _at(self, job: Job, start_s: float) -> Reservation | None:
        """Return the reservation of a job at a time; None: cores or power do not suffice."""
        end_s = start_s + job.requested_s
        allocation = self._cores.find(job, start_s, end_s, order=self._order)
        if allocation is None:
            return None
        reservation = with_boots(self._view, Reservation(start_s, allocation))
        fits = self._cores.fits(job, reservation) and self._power.fits(job, reservation)
        return reservation if fits else None

    def _never_fits(self, job: Job) -> bool:
        """Return whether a job alone on the cluster would exceed every cap that is known."""
        capacity = self._view.nodes.capacity
        usable = usable_nodes(job, capacity, capacity)
        allocation = fill(job, usable[np.argsort(self._order[usable], kind="stable")], capacity)
        if allocation is None:
            return False
        least_w = float(self._bounds.least_w.sum()) + self._power.added_w(allocation)
        return least_w > float(self._cap.values.max())


def _added_per_core_w(view: View, bounds: PowerBounds) -> Floats:
    """Return float64[nodes]: power that a node adds for each core if all its cores compute, W."""
    every, capacity = np.arange(len(view.nodes.free)), view.nodes.capacity
    added_w = bounds.computing_w(every, capacity) - bounds.resting_w(view.nodes.power)
    per_core: Floats = added_w / capacity
    return per_core
