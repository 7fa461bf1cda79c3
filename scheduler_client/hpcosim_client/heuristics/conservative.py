"""Conservative backfilling: every job in the queue has a reservation."""

from __future__ import annotations

from hpcosim_client.heuristics.list_scheduling import SUBMISSION
from hpcosim_client.heuristics.profile import Profile, Reservation, profile_of
from hpcosim_client.job import Job
from hpcosim_client.view import Policy, View

ALARM = 0


def conservative() -> Policy:
    """Return the policy (Mu'alem, Feitelson 2001, section 2.2).

    A job is given, at its submission, the earliest start at which it delays no reservation made
    before. When a job ends at another time than it asked for, the schedule is compressed: each
    waiting job, in submission order, moves to the earliest start the reservations of the others
    leave it, never to a later one. A job that outstays its request pushes back those it is in
    the way of. At one instant ends come before submissions, so compression before placing.
    """
    held: dict[int, Reservation] = {}  # by job
    alarm_s: float | None = None

    def decide(view: View) -> None:
        nonlocal alarm_s
        profile = profile_of(view)
        jobs = list(view.queue.values())
        known = [job for job in jobs if job.job_id in held]
        for job in sorted(known, key=lambda job: (held[job.job_id].start_s, job.order)):
            _renew(profile, job, held, view.now_s)
        if any(view.now_s != job.start_s + job.requested_s for job in view.left):
            for job in [job for job in known if job.job_id in held]:
                profile.release(job)
                _reserve(profile, job, held, view.now_s)
        for job in jobs:
            if job.job_id not in held:
                _reserve(profile, job, held, view.now_s)
        for job in jobs:
            if job.job_id in held and held[job.job_id].start_s == view.now_s:
                reservation = held.pop(job.job_id)
                profile.release(job)
                if not profile.start(view, job, reservation.place):
                    profile.keep(job, reservation)
                    held[job.job_id] = reservation
        alarm_s = _wait_for_next_start(view, held, None if ALARM in view.alarms else alarm_s)

    return decide


def _renew(profile: Profile, job: Job, held: dict[int, Reservation], now_s: float) -> None:
    """Keep a job's reservation, or the next one there is room for, where another overstays."""
    reservation = held[job.job_id]
    if reservation.start_s >= now_s and profile.has_room(job, reservation):
        profile.keep(job, reservation)
    else:
        _reserve(profile, job, held, max(reservation.start_s, now_s))


def _reserve(profile: Profile, job: Job, held: dict[int, Reservation], after_s: float) -> None:
    reservation = profile.earliest(job, after_s)
    if reservation is None:  # only while nodes are switched off, so that they can't be given
        held.pop(job.job_id, None)
        return
    profile.keep(job, reservation)
    held[job.job_id] = reservation


def _wait_for_next_start(
    view: View, held: dict[int, Reservation], alarm_s: float | None
) -> float | None:
    """Be woken for every submission, and when a reservation begins.

    It may begin when nothing else happens: where it was made the end of a job was expected,
    but that job has ended early, and another reservation kept this one from moving.

    Args:
        view: to set the alarm with.
        held: the reservations.
        alarm_s: for when the alarm is set; None: it is not.

    Returns:
        For when it is set now.
    """
    if not view.queue:
        view.wake_on = SUBMISSION
    starts_s = (held[job_id].start_s for job_id in view.queue if job_id in held)
    next_s = min((start_s for start_s in starts_s if start_s > view.now_s), default=None)
    if next_s is not None and next_s != alarm_s:
        view.set_alarm(next_s, ALARM)
    elif next_s is None and alarm_s is not None:
        view.cancel_alarm(ALARM)
    return next_s
