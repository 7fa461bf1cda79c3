"""The scheduler power-capped, slow: each pass builds its profiles anew, for every step and node."""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy

import numpy as np

from hpcosim_client.free_resources import fill, usable_nodes
from hpcosim_client.job import Allocation, Bools, Floats, Ints, Job
from hpcosim_client.profiles import NodeProfile, Reservation, node_profile
from hpcosim_client.scheduler_state import Signal, signal_of
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.heuristics.list_scheduling import SUBMISSION
from hpcosim_schedulers.heuristics.power_aware import a_moment_after, with_boots
from hpcosim_schedulers.heuristics.power_capped import SleepWait
from hpcosim_schedulers.heuristics.power_profile import PowerBounds

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
    sleep = SleepWait()

    def decide(view: View) -> None:
        cap = signal_of(view.signals, CAP, "power-capped")
        if not bounds:
            switches = view.power_exchange.switches
            bounds.append(PowerBounds(view.platform, view.nodes, switches=switches))
        if view.queue:
            _Pass(view, bounds[0], cap, sleep).run()
        if not view.queue:
            sleep.end(view)
            view.wake_on = SUBMISSION

    return decide


class _Pass:
    """One pass through the queue.

    Args:
        view: the view.
        bounds: power of the nodes.
        cap: the power cap, W.
        sleep: the wait for nodes to be switched off.
    """

    def __init__(self, view: View, bounds: PowerBounds, cap: Signal, sleep: SleepWait) -> None:
        self._view, self._bounds, self._cap, self._sleep = view, bounds, cap, sleep
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
                if start_s is None and self._waits_for_sleep(job):
                    return
                if start_s is None and self._never_fits(job):
                    self._view.reject(job)
                else:
                    head = (job, math.inf if start_s is None else start_s)
        self._sleep.end(self._view)

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

    def _waits_for_sleep(self, job: Job) -> bool:
        """Return whether a job without a start waits until nodes are switched off."""
        if job.job_id != self._sleep.job_id and not self._never_fits(job):
            return False
        return self._sleep.begins(self._view, self._bounds, self._cap, job)

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


ROUNDING = 1e-9
"""Relative difference by which the sum of the nodes' powers may exceed the cap."""


class PowerProfile:
    """An upper bound of the power of all nodes from now on, and the cap.

    The power is constant in steps. A job draws power until its requested end. A job that overruns
    its request draws power for ever here, because its end is unknown.

    Args:
        view: the view, for time and power states.
        bounds: power of the nodes.
        cap: the power cap, W.
        running: jobs that run or whose nodes boot.

    Attributes:
        times_s: begin of each step, simulated seconds, ascending; the first is now.
    """

    def __init__(
        self, view: View, bounds: PowerBounds, cap: Signal, running: Iterable[Job]
    ) -> None:
        now_s, self._bounds, self._cap = view.now_s, bounds, cap
        held = [
            (_end_s(job, now_s), job.allocation) for job in running if job.allocation is not None
        ]
        changes_s = [at_s for at_s, _ in cap.forecast if at_s > now_s]
        ends_s = [end_s for end_s, _ in held if end_s < math.inf]
        self.times_s: Floats = np.unique([now_s, *changes_s, *ends_s])
        self._tasks: Ints = np.zeros((len(self.times_s), len(view.nodes.free)), dtype=np.int64)
        self._resting_w = bounds.resting_w(view.nodes.power)
        for end_s, (nodes, tasks, *_) in held:
            self._tasks[np.ix_(self.times_s < end_s, nodes)] += tasks
            self._resting_w[nodes] = np.maximum(self._resting_w, bounds.awake_w)[nodes]
        # Nodes that are not on boot before they compute.
        self._least_computing_w = np.where(view.nodes.on, 0.0, bounds.booting_w)
        # A sleeping node stays on after the first job that wakes it.
        self._woken_s = np.full(len(view.nodes.free), np.inf)
        every = np.arange(len(view.nodes.free))
        self._total_w = self._power_w(every, self._tasks, self._woken_s).sum(axis=1)

    def fits(self, job: Job, reservation: Reservation) -> bool:
        """Return whether the power with a job stays within the cap, up to its requested end.

        The other steps count too: a node that is woken for the job draws more power afterwards.
        """
        added_w, _, _ = self._added(job, reservation)
        limit_w = self._caps_w() * (1.0 + ROUNDING)
        return bool(((self._total_w + added_w <= limit_w) | (added_w <= 0.0)).all())

    def with_job(self, job: Job, reservation: Reservation) -> PowerProfile:
        """Return the profile with a job. The job must fit, see `fits`."""
        after = copy(self)
        for at_s in (reservation.start_s, reservation.runs_s + job.requested_s):
            after._split(at_s)
        added_w, tasks, woken_s = after._added(job, reservation)
        nodes = _allocation(reservation).nodes
        after._total_w = after._total_w + added_w
        after._tasks, after._woken_s = after._tasks.copy(), after._woken_s.copy()
        after._tasks[:, nodes] = tasks
        after._woken_s[nodes] = woken_s
        return after

    def _added(self, job: Job, reservation: Reservation) -> tuple[Floats, Ints, Floats]:
        """Return the added power of each step, and the new tasks and wakings of the nodes."""
        nodes, added, *_ = _allocation(reservation)
        during = self._during(reservation.start_s, reservation.runs_s + job.requested_s)
        before, asleep_to_s = self._tasks[:, nodes], self._woken_s[nodes]
        after = before + during[:, None] * added
        woken_s = np.minimum(asleep_to_s, reservation.start_s)
        power_w = self._power_w(nodes, after, woken_s) - self._power_w(nodes, before, asleep_to_s)
        return power_w.sum(axis=1), after, woken_s

    def _power_w(self, nodes: Ints, tasks: Ints, woken_s: Floats) -> Floats:
        """Return float64[steps, n], power of n nodes in W.

        Args:
            nodes: int64[n], node numbers.
            tasks: int64[steps, n], tasks on these nodes.
            woken_s: float64[n], time from which a node that sleeps now is on, simulated seconds.
        """
        computing_w = self._bounds.computing_w(nodes, tasks)
        computing_w = np.maximum(computing_w, self._least_computing_w[nodes])
        resting_w, awake_w = self._resting_w[nodes], self._bounds.awake_w[nodes]
        is_woken = self._step_ends_s()[:, None] > woken_s
        resting_w = np.where(is_woken, np.maximum(resting_w, awake_w), resting_w)
        return np.where(tasks > 0, computing_w, resting_w)

    def _during(self, start_s: float, end_s: float) -> Bools:
        """Return bool[steps]: whether any part of the step is from `start_s` to before `end_s`."""
        during: Bools = (self.times_s < end_s) & (self._step_ends_s() > start_s)
        return during

    def _step_ends_s(self) -> Floats:
        return np.append(self.times_s[1:], np.inf)

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
