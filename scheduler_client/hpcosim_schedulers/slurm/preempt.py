"""Preemption: running jobs that end, wait again or stop for a job that matters more.

Sources: https://slurm.schedmd.com/preempt.html; slurm.conf(5), PreemptType, PreemptMode.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Allocation, Ints, Job
from hpcosim_client.nodes import NodePool
from hpcosim_client.view import View
from hpcosim_schedulers.slurm.accounts import NORMAL, PreemptMode, Qos
from hpcosim_schedulers.slurm.backfill import Windows
from hpcosim_schedulers.slurm.future import (
    Candidate,
    Found,
    Future,
    NodeSet,
    add,
    set_of,
    set_of_mask,
)
from hpcosim_schedulers.slurm.select import NodeOrder
from hpcosim_schedulers.slurm.settings import SiteSettings
from hpcosim_schedulers.slurm.timers import SiteClock, TimeLimits

# Advance reservations as the passes of the schedulers see them.

EVERYWHERE = -1
"""The set of all nodes."""


class ReservationWindows:
    """The nodes that reservations leave to a job; see `backfill.Windows`."""

    def __init__(self, nodes: NodePool, clock: SiteClock) -> None:
        self._nodes, self._demands = nodes, nodes.demands
        self._clock = clock
        self._seen_s = clock.simulated(clock.begin)

    def changed(self, now_s: float) -> bool:
        """Return whether a reservation has begun or ended since the last call."""
        changes = self._demands.window_changes_s(self._seen_s, now_s)
        self._seen_s = now_s
        return bool(changes) and changes[0] <= now_s

    def next_s(self, now_s: float) -> float:
        """Return when the next reservation begins or ends, simulated seconds; infinity: none."""
        return next(iter(self._demands.window_changes_s(now_s, now_s)), math.inf)

    def permitted(self, candidate: Candidate, start: int, end: int) -> tuple[NodeSet, int | None]:
        """Return the nodes, and when the next reservation after `start` begins or ends.

        A node that must be switched on delays the end of the job.
        """
        start_s, end_s = self._clock.simulated(start), self._clock.simulated(end)
        mask = self._nodes.permitted(candidate.job, start_s, end_s)
        nodes = EVERYWHERE if mask is None else set_of_mask(mask)
        changes = self._demands.window_changes_s(start_s, end_s)
        return nodes, self._clock.second(changes[0]) if changes else None


# Jobs that were suspended by preemption, which go on when their cores are free again.

MANY = 2**62
"""More cores than any job needs."""


class Suspensions:
    """The jobs that preemption suspended.

    Args:
        importance: importance of a job; the most important goes on first.
        may_preempt: tells whether a job may take the cores of another.
    """

    def __init__(
        self,
        importance: Callable[[Job], float],
        may_preempt: Callable[[Candidate, Job, float], bool],
    ) -> None:
        self._importance = importance
        self._may_preempt = may_preempt
        self._victims: set[int] = set()
        self._preemptors: set[int] = set()

    def suspend(self, view: View, job: Job, preemptor: Job) -> None:
        """Suspend a running job until its cores are free again."""
        view.suspend(job)
        self._victims.add(job.job_id)
        self._preemptors.add(preemptor.job_id)

    def resume(self, view: View) -> None:
        """Resume the jobs whose cores are free."""
        for job in self._present(view):
            if view.resume(job):
                self._victims.discard(job.job_id)

    def windows(self, view: View, windows: Windows | None) -> Windows | None:
        """Return what a pass may use: reservations, and the cores of suspended jobs."""
        victims = self._present(view)
        if not victims:
            return windows
        return _Reserved(view, victims, self._preemptors, windows, self._may_preempt)

    def _present(self, view: View) -> list[Job]:
        """Return the victims that are still suspended, the most important first."""
        self._victims &= view.suspended.keys()
        if not self._victims:
            self._preemptors.clear()
            return []
        victims = [view.suspended[job_id] for job_id in self._victims]
        return sorted(victims, key=lambda job: (-self._importance(job), job.job_id))


class _Reserved:
    """The nodes that suspended jobs and reservations leave to a job; see `backfill.Windows`.

    The cores of a suspended job are only for jobs that may preempt it. So it does not wait for a
    time at which no other job has one of its cores.
    """

    def __init__(
        self,
        view: View,
        victims: list[Job],
        preemptors: set[int],
        windows: Windows | None,
        may_preempt: Callable[[Candidate, Job, float], bool],
    ) -> None:
        self._view, self._victims, self._preemptors = view, victims, preemptors
        self._windows, self._may_preempt = windows, may_preempt

    def permitted(self, candidate: Candidate, start: int, end: int) -> tuple[NodeSet, int | None]:
        """Return the nodes, and when the next reservation after `start` begins or ends."""
        nodes, change = EVERYWHERE, None
        if self._windows is not None:
            nodes, change = self._windows.permitted(candidate, start, end)
        now_s = self._view.now_s
        kept = [job for job in self._victims if not self._may_preempt(candidate, job, now_s)]
        if kept:
            nodes &= set_of_mask(self._left(kept) >= candidate.job.cores)
        return nodes, change

    def _left(self, kept: list[Job]) -> Ints:
        """Return int64[nodes]: cores for further jobs beside suspended ones; no limit elsewhere."""
        left = self._view.nodes.capacity.copy()
        elsewhere = np.ones(len(left), dtype=np.bool_)
        for job in kept:
            _subtract(left, job)
            if job.allocation is not None:
                elsewhere[job.allocation.nodes] = False
        for job in self._view.running.values():
            if job.job_id not in self._preemptors:
                _subtract(left, job)
        left[elsewhere] = MANY
        return left


def _subtract(cores: Ints, job: Job) -> None:
    if job.allocation is not None:
        cores[job.allocation.nodes] -= job.allocation.cores_per_node


REQUEUE_DELAY_S = 121.0
"""Time after which a requeued job is eligible again, s: lifetime of a job credential and 1 s."""

NO_QOS = Qos()


class Room(NamedTuple):
    """Room for a job.

    Attributes:
        is_free: whether it is free now; False: victims have yet to end.
    """

    place: Found
    is_free: bool


class Preemptor:
    """Finds and ends the victims of a job."""

    def __init__(
        self,
        site: SiteSettings,
        view: View,
        order: NodeOrder,
        waits_for_switches: Callable[[int], bool],
    ) -> None:
        self._site = site
        self._order, self._waits_for_switches = order, waits_for_switches
        self._partitions = {each.name: each for each in view.platform.partitions}
        self._ended: dict[int, int] = {}  # run of each victim that has been ended
        self.suspensions = Suspensions(self._first, self._may_preempt)

    @property
    def active(self) -> bool:
        """Whether any job may preempt another."""
        return self._site.preemption.type != "none"

    def victims(
        self, view: View, candidate: Candidate, nodes: NodeSet
    ) -> tuple[list[Job], Found] | None:
        """Return the fewest jobs to end so that a job fits on some nodes, and its place.

        Jobs that may be preempted are taken away one by one, the least important first, until the
        job fits. Those on its nodes are the victims.

        Returns:
            None: the job fits nowhere, or all victims were ended before.
        """
        preemptable = [
            job
            for job in view.running.values()
            if job.allocation is not None and self._may_preempt(candidate, job, view.now_s)
        ]
        preemptable.sort(key=self._importance)
        amounts = view.nodes.amounts.copy()
        taken: list[Job] = []
        for job in preemptable:
            assert job.allocation is not None
            if not set_of(job.allocation.nodes.tolist()) & nodes:
                continue
            add(amounts, self._given_up(job, job.allocation), 1)
            taken.append(job)
            future = Future(amounts, (), view.nodes.slots, self._order, self._waits_for_switches)
            found = future.find(candidate, nodes)
            if found is not None:
                own = found.node_set
                victims = [
                    each
                    for each in taken
                    if each.allocation is not None and set_of(each.allocation.nodes.tolist()) & own
                ]
                return (victims, found) if any(not self._is_ended(v) for v in victims) else None
        return None

    def make_room(
        self, view: View, candidate: Candidate, nodes: NodeSet, running: TimeLimits
    ) -> Room | None:
        """End or suspend jobs as the preempt mode of their QOS or partition says.

        Victims that are to be suspended go on until the others have ended.

        Returns:
            None: there are no victims.
        """
        found = self.victims(view, candidate, nodes) if self.active else None
        if found is None:
            return None
        victims, place = found
        ended = [job for job in victims if self._mode(job)[0] != "suspend"]
        for job in ended:
            if not self._is_ended(job):
                self._end(view, job)
                running.killed(job)
        if not ended:
            for job in victims:
                self.suspensions.suspend(view, job, candidate.job)
                running.suspended(job)
        return Room(place, not ended)

    def _end(self, view: View, job: Job) -> None:
        """End the run of a job."""
        self._ended[job.job_id] = job.runs
        mode, grace_s = self._mode(job)
        if mode == "requeue" and job.request is not None and job.request.requeue:
            begin_s = view.now_s + grace_s + REQUEUE_DELAY_S
            view.requeue(job, begin_s=begin_s, grace_s=grace_s)
        else:
            view.kill(job, grace_s=grace_s, state="preempted")

    def _is_ended(self, job: Job) -> bool:
        return self._ended.get(job.job_id) == job.runs

    def _may_preempt(self, candidate: Candidate, victim: Job, now_s: float) -> bool:
        if self._mode(victim)[0] == "off":
            return False
        qos = self._qos(victim)
        exempt_s = qos.preempt_exempt_time_s
        if exempt_s is None:
            exempt_s = self._site.preemption.exempt_time_s
        if now_s < victim.start_s + exempt_s:
            return False
        if self._site.preemption.type == "qos":
            return (victim.qos or NORMAL) in self._qos(candidate.job).preempt
        return self._tier(victim.partitions) < self._tier((candidate.partition,))

    def _importance(self, job: Job) -> tuple[float, ...]:
        assert job.allocation is not None
        first = self._first(job)
        if self._site.preemption.youngest_first:
            return (first, -job.start_s, job.job_id)
        return (first, len(job.allocation.nodes), job.job_id)

    def _first(self, job: Job) -> float:
        """Return what decides first how important a job is."""
        if self._site.preemption.type == "partition_prio":
            return self._tier(job.partitions)
        return self._qos(job).priority

    def _given_up(self, job: Job, allocation: Allocation) -> Allocation:
        """Return what a victim gives up; a suspended job keeps memory, devices and licences."""
        return allocation._replace(held=None) if self._mode(job)[0] == "suspend" else allocation

    def _mode(self, job: Job) -> tuple[PreemptMode, float]:
        """Return how a job is preempted, and its grace time, s."""
        if self._site.preemption.type == "qos":
            qos = self._qos(job)
            return qos.preempt_mode or self._site.preemption.mode, qos.grace_time_s
        part = self._partitions.get(job.partitions[0]) if job.partitions else None
        if part is None:
            return self._site.preemption.mode, 0.0
        return part.preempt_mode or self._site.preemption.mode, part.grace_time_s

    def _qos(self, job: Job) -> Qos:
        return self._site.qos.get(job.qos or NORMAL, NO_QOS)

    def _tier(self, names: tuple[str, ...]) -> int:
        tiers = [self._partitions[name].priority_tier for name in names if name in self._partitions]
        return max(tiers, default=1)
