"""Conservative backfilling: every job in the queue has a reservation."""

from __future__ import annotations

from hpcosim_client.heuristics.list_scheduling import sleep_while_nothing_can_start
from hpcosim_client.heuristics.profile import Profile, profile_of
from hpcosim_client.job import Job
from hpcosim_client.view import Policy, View


def conservative() -> Policy:
    """Return the policy (Mu'alem, Feitelson 2001, section 2.2).

    A job is given the earliest start at which it delays no reservation made before. When a
    job ends at another time than it asked for, the schedule is compressed: each waiting job,
    in submission order, moves to the earliest start the reservations of the others leave it,
    never to a later one. A job that outstays its request pushes back those it is in the way of.
    """
    starts_s: dict[int, float] = {}  # reserved, by job

    def decide(view: View) -> None:
        profile = profile_of(view)
        jobs = list(view.queue.values())
        held = [job for job in jobs if job.job_id in starts_s]
        for job in sorted(held, key=lambda job: (starts_s[job.job_id], job.order)):
            _reserve(profile, job, max(starts_s[job.job_id], view.now_s), starts_s)
        for job in jobs:
            if job.job_id not in starts_s:
                _reserve(profile, job, view.now_s, starts_s)
        if any(view.now_s != job.start_s + job.requested_s for job in view.left):
            for job in jobs:
                profile.release(job)
                _reserve(profile, job, view.now_s, starts_s)
        for job in jobs:
            if starts_s[job.job_id] == view.now_s:
                profile.release(job)
                if profile.start(view, job):
                    del starts_s[job.job_id]
                else:
                    profile.reserve(job, view.now_s)
        sleep_while_nothing_can_start(view)

    return decide


def _reserve(profile: Profile, job: Job, after_s: float, starts_s: dict[int, float]) -> None:
    starts_s[job.job_id] = profile.earliest_s(job, after_s)
    profile.reserve(job, starts_s[job.job_id])
