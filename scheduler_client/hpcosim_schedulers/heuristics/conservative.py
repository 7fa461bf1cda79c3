"""Conservative backfilling: every job in the queue has a reservation."""

from __future__ import annotations

import math
from typing import NamedTuple

from hpcosim_client.job import Job
from hpcosim_client.profiles import NodeProfile, Profile, Reservation, profile_of
from hpcosim_client.view import Policy, PolicyAlarm, View
from hpcosim_schedulers.heuristics.list_scheduling import SUBMISSION
from hpcosim_schedulers.heuristics.power_aware import (
    WakeAhead,
    a_moment_after,
    cheapest_start,
    nothing_sleeps,
    power_profile,
    with_boots,
)
from hpcosim_schedulers.power.settings import Awareness


def conservative(awareness: Awareness = "unaware") -> Policy:
    """Return conservative backfilling (Mu'alem, Feitelson 2001, section 2.2).

    At its submission a job gets the earliest reservation that delays no earlier reservation. When a
    job ends at another time than requested, the schedule is compressed: each waiting job, in
    submission order, moves to the earliest start that the other reservations allow, never to a
    later one. A job that overruns its request delays the reservations that overlap it. At one
    instant, compression for ended jobs precedes the reservations of submitted ones.

    Args:
        awareness: awareness of power states. Unless `unaware`, the schedule is compressed at every
            event, because nodes also become available when they are switched.
    """
    held: dict[int, Reservation] = {}  # by job
    wake_ahead, alarm = WakeAhead(awareness), PolicyAlarm()

    def decide(view: View) -> None:
        aware = awareness != "unaware" and not nothing_sleeps(view)
        for job in view.arrived:  # it waits again, or its request changed
            held.pop(job.job_id, None)
        profile = power_profile(view, awareness) if aware else profile_of(view)
        book = _Book(view, profile, held, awareness if aware else "unaware")
        jobs = view.queue.values()
        known = [job for job in jobs if job.job_id in held]
        before_s = {job.job_id: held[job.job_id].start_s for job in known}
        for job in sorted(known, key=lambda job: (held[job.job_id].start_s, job.order)):
            book.renew(job)
        if aware or any(view.now_s != job.expected_end_s(-math.inf) for job in view.left):
            for job in [job for job in known if job.job_id in held]:
                profile.release(job)
                book.reserve(job, view.now_s)
        for job in jobs:
            if job.job_id not in held:
                book.reserve(job, view.now_s)
        for job in jobs:
            if job.job_id in held and held[job.job_id].start_s == view.now_s:
                book.start(job)
        past_s = view.now_s
        steady, moving = _by_certainty(view, held, before_s)
        if aware:
            wake_ahead.follow(view, steady, moving)
            past_s = a_moment_after(view.now_s)  # an event reports the end of a late boot
        if not view.queue:
            view.wake_on = SUBMISSION
        # No event may occur when a reservation begins: it began at the expected end of a job that
        # has ended early, and another reservation prevented this one from moving.
        starts_s = (each.start_s for each in steady if each.start_s > past_s)
        alarm.set_or_cancel(view, min(starts_s, default=math.inf))
        if view.explains:
            _explain(view, held)

    return decide


def _explain(view: View, held: dict[int, Reservation]) -> None:
    """Explain that the first job waits for resources and the others for it, until they start."""
    reason = "Resources"
    for job in view.queue.values():
        reservation = held.get(job.job_id)
        view.explain(job, reason, None if reservation is None else reservation.runs_s)
        reason = "Priority"


class _Book(NamedTuple):
    """The reservations during one call of the policy."""

    view: View
    profile: Profile
    held: dict[int, Reservation]
    awareness: Awareness

    def renew(self, job: Job) -> None:
        """Repeat a job's reservation, or make a later one where an overrunning job overlaps it."""
        reservation, now_s = self.held[job.job_id], self.view.now_s
        if self.awareness == "aware" and reservation.allocation is not None:
            reservation = self.held[job.job_id] = with_boots(self.view, reservation)
        if reservation.start_s >= now_s and self.profile.fits(job, reservation):
            self.profile.reserve(job, reservation)
        else:
            self.reserve(job, max(reservation.start_s, now_s))

    def reserve(self, job: Job, after_s: float) -> None:
        """Make the earliest reservation at or after a time."""
        profile = self.profile
        if isinstance(profile, NodeProfile) and self.awareness != "unaware":
            reservation = cheapest_start(self.view, profile, self.awareness, job, after_s)
        else:
            reservation = profile.earliest(job, after_s)
        if reservation is None:  # only while nodes that jobs may not have are off
            self.held.pop(job.job_id, None)
            return
        profile.reserve(job, reservation)
        self.held[job.job_id] = reservation

    def start(self, job: Job) -> None:
        """Start a job whose reservation begins now, if its cores are free."""
        reservation = self.held.pop(job.job_id)
        if self.awareness == "aware" and reservation.allocation is not None:
            if self.view.start_at(job, reservation.allocation):
                return
        else:
            self.profile.release(job)
            if self.profile.start(self.view, job, reservation.allocation):
                return
            self.profile.reserve(job, reservation)
        self.held[job.job_id] = reservation


def _by_certainty(
    view: View, held: dict[int, Reservation], before_s: dict[int, float]
) -> tuple[list[Reservation], list[Reservation]]:
    """Return the reservations of waiting jobs, those that wait for an event apart.

    While a job overruns its request or a boot is late, a reservation that became later waits for
    their end, which is an event: at its begin it would only become later again.
    """
    overdue = _is_overdue(view)
    steady: list[Reservation] = []
    moving: list[Reservation] = []
    for job_id in view.queue:
        if job_id in held:
            became_later = held[job_id].start_s > before_s.get(job_id, math.inf)
            (moving if overdue and became_later else steady).append(held[job_id])
    return steady, moving


def _is_overdue(view: View) -> bool:
    """Return whether the expected end of a running job or of a boot has passed."""
    now_s, nodes = view.now_s, view.nodes
    if any(job.expected_end_s(-math.inf) <= now_s for job in view.running.values()):
        return True
    on_s = nodes.expected_on_s(now_s) if "switching_on" in nodes.power else ()
    return any(
        state == "switching_on" and at_s <= now_s
        for state, at_s in zip(nodes.power, on_s, strict=False)
    )
