"""Conservative backfilling: every job in the queue has a reservation."""

from __future__ import annotations

import math
from typing import NamedTuple

from hpcosim_client.alarm import PolicyAlarm
from hpcosim_client.heuristics.awareness import Awareness
from hpcosim_client.heuristics.list_scheduling import SUBMISSION
from hpcosim_client.heuristics.node_profile import NodeProfile
from hpcosim_client.heuristics.power_aware import (
    a_moment_after,
    cheapest_start,
    nothing_sleeps,
    power_profile,
    with_boots,
)
from hpcosim_client.heuristics.profile import profile_of
from hpcosim_client.heuristics.reservation import Profile, Reservation
from hpcosim_client.heuristics.wake_ahead import WakeAhead
from hpcosim_client.job import Job
from hpcosim_client.view import Policy, View


def conservative(awareness: Awareness = "unaware") -> Policy:
    """Return the policy (Mu'alem, Feitelson 2001, section 2.2).

    A job is given, at its submission, the earliest start at which it delays no reservation made
    before. When a job ends at another time than it asked for, the schedule is compressed: each
    waiting job, in submission order, moves to the earliest start the reservations of the others
    leave it, never to a later one. A job that outstays its request pushes back those it is in
    the way of. At one instant ends come before submissions, so compression before placing.

    Args:
        awareness: of power states. Unless unaware, the schedule is compressed at every event,
            for nodes come and go at others than the ends of jobs, too.
    """
    held: dict[int, Reservation] = {}  # by job
    wake_ahead, alarm = WakeAhead(awareness), PolicyAlarm()

    def decide(view: View) -> None:
        aware = awareness != "unaware" and not nothing_sleeps(view)
        profile = power_profile(view, awareness) if aware else profile_of(view)
        book = _Book(view, profile, held, awareness if aware else "unaware")
        jobs = view.queue.values()
        known = [job for job in jobs if job.job_id in held]
        for job in sorted(known, key=lambda job: (held[job.job_id].start_s, job.order)):
            book.renew(job)
        if aware or any(view.now_s != job.start_s + job.requested_s for job in view.left):
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
        if aware:
            wake_ahead.follow(view, [held[job_id] for job_id in view.queue if job_id in held])
            past_s = a_moment_after(view.now_s)  # of a boot that is late its end will tell
        if not view.queue:
            view.wake_on = SUBMISSION
        alarm.set_or_cancel(view, _next_start_s(view, held, past_s))

    return decide


class _Book(NamedTuple):
    """The reservations, at one event.

    Attributes:
        view: the view.
        profile: what is free beside all reservations.
        held: the reservations, by job.
        awareness: of power states.
    """

    view: View
    profile: Profile
    held: dict[int, Reservation]
    awareness: Awareness

    def renew(self, job: Job) -> None:
        """Keep a reservation, or the next one there is room for, where another overstays."""
        reservation, now_s = self.held[job.job_id], self.view.now_s
        if self.awareness == "aware" and reservation.place is not None:
            reservation = self.held[job.job_id] = with_boots(self.view, reservation)
        if reservation.start_s >= now_s and self.profile.has_room(job, reservation):
            self.profile.keep(job, reservation)
        else:
            self.reserve(job, max(reservation.start_s, now_s))

    def reserve(self, job: Job, after_s: float) -> None:
        """Make the earliest reservation from a time on."""
        profile = self.profile
        if isinstance(profile, NodeProfile) and self.awareness != "unaware":
            reservation = cheapest_start(self.view, profile, self.awareness, job, after_s)
        else:
            reservation = profile.earliest(job, after_s)
        if reservation is None:  # only while nodes are off that jobs may not be given
            self.held.pop(job.job_id, None)
            return
        profile.keep(job, reservation)
        self.held[job.job_id] = reservation

    def start(self, job: Job) -> None:
        """Start a job whose reservation begins, if there is room in fact."""
        reservation = self.held.pop(job.job_id)
        if self.awareness == "aware" and reservation.place is not None:
            if self.view.start_at(job, reservation.place):
                return
        else:
            self.profile.release(job)
            if self.profile.start(self.view, job, reservation.place):
                return
            self.profile.keep(job, reservation)
        self.held[job.job_id] = reservation


def _next_start_s(view: View, held: dict[int, Reservation], past_s: float) -> float:
    """Return when the next reservation begins; infinity: none does.

    It may begin when nothing else happens: where it was made the end of a job was expected,
    but that job has ended early, and another reservation kept this one from moving.

    Args:
        view: the view, with the jobs that wait.
        held: the reservations, by job.
        past_s: only reservations that begin later count.
    """
    starts_s = (held[job_id].start_s for job_id in view.queue if job_id in held)
    return min((start_s for start_s in starts_s if start_s > past_s), default=math.inf)
