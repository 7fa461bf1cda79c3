"""EASY backfilling below a power cap."""

from __future__ import annotations

import math

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
    its time. A later job starts if it does not delay the head of the queue, which waits for cores
    and power. Nodes that add the least power for each core go first.

    The power exceeds the cap only if the cap falls below the power of running jobs without being
    forecast, if a job overruns its requested time, if a boot takes longer than its mean time, or if
    a power manager switches on nodes in advance. Running jobs are never killed.

    A job is rejected when it is the head of the queue and could not start at any known cap, now or
    in the forecast, even if no other job ran. The nodes count in their present power states.
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
        self._power = PowerProfile(view, bounds, cap, view.running.values())
        self._order = _added_per_core_w(view, bounds)

    def run(self) -> None:
        """Start jobs until one does not fit, the head, then those that do not delay the head."""
        head: tuple[Job, float] | None = None  # and its earliest start
        for job in self._view.queue.values():
            if job.cores > self._view.nodes.free_cores and head is not None:
                continue
            now = self._at(job, self._view.now_s)
            if now is not None and self._started(job, now, head):
                continue
            if head is None:
                start_s = self._earliest_s(job)
                if start_s is None and self._never_fits(job):
                    self._view.reject(job)
                else:
                    head = (job, math.inf if start_s is None else start_s)

    def _started(self, job: Job, now: Reservation, head: tuple[Job, float] | None) -> bool:
        """Start a job if that does not delay the head of the queue; return whether it started."""
        before = self._power
        self._cores.reserve(job, now)
        self._power = before.with_job(job, now)
        delays = head is not None and head[1] < math.inf and self._at(*head) is None
        if not delays and now.allocation and self._view.start_at(job, now.allocation):
            return True
        self._cores.release(job)
        self._power = before
        return False

    def _earliest_s(self, job: Job) -> float | None:
        """Return the earliest start of a job, simulated seconds; None: there is none."""
        now_s = self._view.now_s
        times_s: set[float] = {*self._cores.starts_s(job, now_s), *self._power.times_s.tolist()}
        for start_s in sorted(times_s):
            if self._at(job, start_s) is not None:
                return start_s
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
        """Return whether a job alone on the cluster would exceed the cap at every known time."""
        nodes = self._view.nodes
        if set(nodes.power) & {"switching_on", "switching_off"}:
            return False  # their power changes soon
        usable = usable_nodes(job, nodes.capacity, nodes.capacity)
        by_power = usable[np.argsort(self._order[usable], kind="stable")]
        allocation = fill(job, by_power, nodes.capacity)
        alone = PowerProfile(self._view, self._bounds, self._cap, ())
        return not any(
            alone.fits(job, with_boots(self._view, Reservation(start_s, allocation)))
            for start_s in alone.times_s.tolist()
        )


def _added_per_core_w(view: View, bounds: PowerBounds) -> Floats:
    """Return float64[nodes]: power that a node adds for each core if all its cores compute, W."""
    every, capacity = np.arange(len(view.nodes.free)), view.nodes.capacity
    added_w = bounds.computing_w(every, capacity) - bounds.resting_w(view.nodes.power)
    per_core: Floats = added_w / capacity
    return per_core
