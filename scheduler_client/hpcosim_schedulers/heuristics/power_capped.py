"""EASY backfilling below a power cap; the power of the cluster is kept from pass to pass."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from hpcosim_client.free_resources import fill
from hpcosim_client.job import Allocation, Bools, Floats, Ints, Job
from hpcosim_client.profiles import NodeProfile, Reservation, node_profile
from hpcosim_client.scheduler_state import Signal, signal_of
from hpcosim_client.view import Policy, PolicyAlarm, View
from hpcosim_protocol import Placement, PowerState
from hpcosim_schedulers.heuristics.list_scheduling import SUBMISSION, explain_queue
from hpcosim_schedulers.heuristics.power_aware import a_moment_after, nothing_sleeps, with_boots
from hpcosim_schedulers.heuristics.power_profile import (
    ROUNDING,
    PowerBounds,
    PowerProfile,
    PowerStep,
)

# The head of the queue below a power cap: whether it waits until nodes are switched off.

MOST_WAIT_S = 86_400.0
"""Longest wait of a job for nodes to be switched off while no job runs, simulated seconds.

A power manager may leave nodes on for ever; the job is rejected then.
"""


class SleepWait:
    """The wait of a job that fits below the cap only while other nodes sleep."""

    def __init__(self) -> None:
        self.job_id: int | None = None
        self._until_s = math.inf
        self._alarm = PolicyAlarm()

    def begins(self, view: View, bounds: PowerBounds, cap: Signal, job: Job) -> bool:
        """Return whether a job, the head of the queue, waits; it does not fit at present."""
        nodes = view.nodes
        is_on = np.array([state != "sleeping" for state in nodes.power])
        may_change = view.power_exchange.switches and bool((nodes.can_sleep & is_on).any())
        if not may_change or least_power_w(view, bounds, job) > cap.values.max() * (1.0 + ROUNDING):
            self.end(view)
            return False
        if self.job_id != job.job_id or view.running:
            self.job_id, self._until_s = job.job_id, math.inf
        if not view.running:
            self._until_s = min(self._until_s, view.now_s + MOST_WAIT_S)
        if view.now_s >= self._until_s:
            self.end(view)
            return False
        self._alarm.set_or_cancel(view, self._until_s)
        return True

    def end(self, view: View) -> None:
        """End the wait: the job starts or is rejected, or it is not the head any more."""
        self.job_id = None
        self._until_s = math.inf
        self._alarm.cancel(view)


def least_power_w(view: View, bounds: PowerBounds, job: Job) -> float:
    """Return the power of a job alone on nodes that are on, while the others sleep, W."""
    nodes, every = view.nodes, np.arange(len(view.nodes.free))
    asleep_w: Floats = np.minimum(bounds.resting_w(["sleeping"] * len(every)), bounds.awake_w)
    added_w = bounds.computing_w(every, nodes.capacity) - asleep_w
    allocation = nodes.alone(job, np.argsort(added_w / nodes.capacity, kind="stable"))
    if allocation is None:
        return math.inf
    computing_w = bounds.computing_w(allocation.nodes, allocation.tasks)
    return float(asleep_w.sum() + (computing_w - asleep_w[allocation.nodes]).sum())


@dataclass
class CapState:
    """What the scheduler keeps from pass to pass.

    Attributes:
        always_on: whether no node can be switched.
        cap: the cap of the last pass; None: there was no pass.
        possible: numbers of jobs that fit alone below a cap that does not change.
    """

    bounds: PowerBounds
    now: PowerNow
    always_on: bool
    cap: Signal | None = None
    possible: set[int] = field(default_factory=set)
    sleep: SleepWait = field(default_factory=SleepWait)


@dataclass
class Head:
    """The first job of the queue that does not fit now.

    Attributes:
        start_s: its earliest start, simulated seconds; infinity: there is none; None: not computed.
        step: power at that time with the jobs started beside; None: not computed.
        waits_for_sleep: whether it waits until nodes are switched off.
    """

    job: Job
    start_s: float | None = None
    step: PowerStep | None = None
    waits_for_sleep: bool = False


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
    forecast, if a job overruns its requested time, if a boot takes longer than its mean time, if
    a power manager switches on nodes in advance, or if the cap is below the power of all nodes
    without jobs, which a power manager may switch off at the same time. Running jobs are never
    killed.

    A job is rejected when it is the head of the queue and could not start at any known cap, now or
    in the forecast, even if no other job ran. The nodes count in their present power states. With a
    power manager, a job that would fit if other nodes slept waits for that, at most `MOST_WAIT_S`
    while no job runs; the jobs behind it wait, too.
    """
    kept: list[CapState] = []

    def decide(view: View) -> None:
        cap = signal_of(view.signals, CAP, "power-capped")
        if not kept:
            switches = view.power_exchange.switches
            bounds = PowerBounds(view.platform, view.nodes, switches=switches)
            kept.append(CapState(bounds, PowerNow(view, bounds), nothing_sleeps(view)))
        if view.queue:
            _Pass(view, kept[0], cap).run()
        if not view.queue:
            kept[0].sleep.end(view)
            view.wake_on = SUBMISSION

    return decide


class _Pass:
    """One pass through the queue.

    Most passes find out from `PowerNow` alone that no job can start. The profiles over time are
    built when a decision depends on them.
    """

    def __init__(self, view: View, kept: CapState, cap: Signal) -> None:
        self._view, self._kept, self._cap = view, kept, cap
        self._bounds, self._now = kept.bounds, kept.now
        if cap is not kept.cap:
            kept.cap = cap
            kept.possible.clear()
        self._now.follow(view)
        self._is_steady = kept.always_on and not cap.forecast
        # The power only falls without new jobs: one that fits at its start fits to its end. A job
        # that overruns its request counts beside the jobs that are expected on its cores.
        is_bounded = kept.bounds.least_core_w > 0.0 and self._now.first_end_s > view.now_s
        self._falls = self._is_steady and is_bounded
        self._excludes = is_bounded
        self._cap_w = float(cap.values[np.searchsorted(cap.times_s, view.now_s, side="right") - 1])
        self._profiles: tuple[NodeProfile, PowerProfile] | None = None
        if not kept.always_on:
            self._built()

    def run(self) -> None:
        """Start jobs until one does not fit, the head, then those that do not delay the head."""
        head: Head | None = None
        for job in self._view.queue.values():
            if head is not None and job.cores > self._view.nodes.free_cores:
                continue
            now = self._starts_now(job)
            if now is not None and self._started(job, now, head):
                continue
            if head is None:
                head = self._head(job)
                if head is not None and head.waits_for_sleep:
                    self._explain(head)
                    return  # later jobs would keep nodes on
        self._kept.sleep.end(self._view)
        self._explain(head)

    def _explain(self, head: Head | None) -> None:
        """Explain that the head waits for cores or for power, and the other jobs for it."""
        if head is None or not self._view.explains:
            return
        if head.start_s is None:
            head.start_s = self._earliest_s(head.job)
        fits = head.job.cores <= self._view.nodes.free_cores
        reason = "PowerNotAvail" if fits else "Resources"
        explain_queue(self._view, head.job, head.start_s, reason)

    def _head(self, job: Job) -> Head | None:
        """Return a job as the head; reject it and return None if it can never start."""
        if job.job_id in self._kept.possible:
            return Head(job)
        if self._is_steady and not self._never_fits(job):
            self._kept.possible.add(job.job_id)
            return Head(job)
        head = Head(job, self._earliest_s(job))
        head.waits_for_sleep = head.start_s == math.inf and self._waits_for_sleep(job)
        if head.waits_for_sleep:
            return head
        if head.start_s == math.inf and self._never_fits(job):
            self._view.reject(job)
            return None
        return head

    def _starts_now(self, job: Job) -> Reservation | None:
        """Return the reservation of a job from now on; None: cores or power do not suffice.

        Free cores do not become fewer in the profile, so only those free now count.
        """
        now_s = self._view.now_s
        if now_s + job.requested_s <= now_s:
            return self._at(job, now_s)
        found = self._now.find(job, self._cap_w)
        if found is None:
            return None
        if self._falls:
            return Reservation(now_s, found)
        reservation = with_boots(self._view, Reservation(now_s, found))
        return reservation if self._built()[1].fits(job, reservation) else None

    def _started(self, job: Job, now: Reservation, head: Head | None) -> bool:
        """Start a job if that does not delay the head of the queue; return whether it started."""
        view, allocation = self._view, now.allocation
        assert allocation is not None
        end_s = now.runs_s + job.requested_s
        if head is None and self._profiles is None and end_s > view.now_s:
            if not view.start_at(job, allocation):
                return False
            self._now.start(job, now, view.now_s)
            return True
        if head is not None:
            return self._started_beside(job, now, head)
        cores, power = self._built()
        cores.reserve(job, now)
        self._profiles = cores, power.with_job(job, now)
        if view.start_at(job, allocation):
            self._now.start(job, now, view.now_s)
            return True
        cores.release(job)
        self._profiles = cores, power
        return False

    def _started_beside(self, job: Job, now: Reservation, head: Head) -> bool:
        """Do `_started` if there is a head."""
        if head.start_s is None:
            head.start_s = self._earliest_s(head.job)
        assert now.allocation is not None
        cores, power = self._built()
        step = head.step
        cores.reserve(job, now)
        if self._falls and head.start_s < head.start_s + head.job.requested_s < math.inf:
            is_on_time = self._is_on_time(job, now, head)
        else:
            self._profiles = cores, power.with_job(job, now)
            is_on_time = head.start_s == math.inf or self._at(head.job, head.start_s) is not None
        if is_on_time and self._view.start_at(job, now.allocation):
            self._now.start(job, now, self._view.now_s)
            return True
        cores.release(job)
        self._profiles, head.step = (cores, power), step
        return False

    def _is_on_time(self, job: Job, now: Reservation, head: Head) -> bool:
        """Return whether the head fits at its start beside a job, if the power only falls."""
        assert head.start_s is not None
        assert now.allocation is not None
        cores, power = self._built()
        end_s = head.start_s + head.job.requested_s
        order = self._now.added_per_core_w
        allocation = cores.find(head.job, head.start_s, end_s, order=order)
        step = head.step or power.step_at(head.start_s)
        if now.runs_s + job.requested_s > head.start_s:
            step = step.with_job(now.allocation)
        head.step = step
        limit_w = self._cap_w * (1.0 + ROUNDING)
        return allocation is not None and step.power_with_w(allocation) <= limit_w

    def _built(self) -> tuple[NodeProfile, PowerProfile]:
        """Return the profiles of cores and power, which are built once a pass."""
        if self._profiles is None:
            view, resting_w = self._view, self._now.resting_w
            cores = node_profile(view, a_moment_after(view.now_s))
            running = view.running.values()
            power = PowerProfile(view, self._bounds, self._cap, running, resting_w)
            self._profiles = cores, power
        return self._profiles

    def _earliest_s(self, job: Job) -> float:
        """Return the earliest start of a job, simulated seconds; infinity: there is none."""
        cores, power = self._built()
        now_s = self._view.now_s
        takes_time = now_s + job.requested_s > now_s
        for start_s in sorted({*cores.starts_s(job, now_s), *power.times_s}):
            if takes_time and cores.total_at(start_s) < job.cores:
                continue
            if takes_time and self._excludes and power.excludes(job, start_s):
                continue
            if self._at(job, start_s) is not None:
                return start_s
        return math.inf

    def _at(self, job: Job, start_s: float) -> Reservation | None:
        """Return the reservation of a job at a time; None: cores or power do not suffice."""
        cores, power = self._built()
        end_s = start_s + job.requested_s
        allocation = cores.find(job, start_s, end_s, order=self._now.added_per_core_w)
        if allocation is None:
            return None
        reservation = Reservation(start_s, allocation)
        if not self._kept.always_on:
            reservation = with_boots(self._view, reservation)
            if not cores.fits(job, reservation):
                return None
        return reservation if power.fits(job, reservation) else None

    def _waits_for_sleep(self, job: Job) -> bool:
        """Return whether a job without a start waits until nodes are switched off."""
        sleep = self._kept.sleep
        if job.job_id != sleep.job_id and not self._never_fits(job):
            return False
        return sleep.begins(self._view, self._bounds, self._cap, job)

    def _never_fits(self, job: Job) -> bool:
        """Return whether a job alone on the cluster would exceed the cap at every known time."""
        nodes = self._view.nodes
        if set(nodes.power) & {"switching_on", "switching_off"}:
            return False  # their power changes soon
        by_power = np.argsort(self._now.added_per_core_w, kind="stable")
        allocation = nodes.alone(job, by_power)
        if allocation is None:
            return True
        alone = PowerProfile(self._view, self._bounds, self._cap, (), self._now.resting_w)
        return not any(
            alone.fits(job, with_boots(self._view, Reservation(start_s, allocation)))
            for start_s in alone.times_s
        )


class PowerNow:
    """The first step of a `PowerProfile`, for many tests of whether a job can start now.

    A job that does not fit now does not fit in the profile. An event changes few jobs: only their
    nodes are counted anew.

    Attributes:
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
