"""Look-ahead: of a few plans for the queue, the jobs follow the one that waits the least.

A plan gives each of some waiting jobs, in an order, its earliest start by requested times that
delays no earlier one of the order. The orders are by area, each with another job at its front.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hpcosim_client.job import Job
from hpcosim_client.profiles import Profile, Reservation, profile_of
from hpcosim_client.view import View
from hpcosim_schedulers.heuristics.easy import WINDOW_JOBS, some_job_fits
from hpcosim_schedulers.heuristics.list_scheduling import (
    explain_queue,
    saf,
    sleep_while_nothing_can_start,
)

PLANS = 8
"""Most plans that are compared: one for each of the first jobs by area."""

PLANNED_JOBS = 32
"""Most jobs of a plan that is compared."""

HALF_S = 43_200.0
"""Time d of d / (1 + d / HALF_S), the cost of a start in d seconds. Starts that are far away count
less, because jobs that are submitted until then change them."""

PER_DAY = 0.05
"""Increase of the weight of a job for each day that it has waited."""

DAY_S = 86_400.0


def look_ahead(view: View) -> None:
    """Start the jobs that the plan with the least cost starts now.

    The first `WINDOW_JOBS` waiting jobs are sorted by area, requested time x cores. For each of
    the first `PLANS` of them, the head, there is a plan: the head, then the others of the first
    `PLANNED_JOBS` in this order. Its cost is the sum of `cost_of_start`; of equal plans the first
    is taken. If its head fits, it starts, and plans are made anew. Otherwise all visible jobs get
    reservations, the head first, then the others by area; those whose reservation begins now start.
    The jobs behind them start, in submission order, if they delay no reservation.
    """
    head, shadow = None, None
    while head is None and some_job_fits(view):
        jobs = sorted(view.queue.first_jobs(WINDOW_JOBS), key=saf)
        head = jobs.pop(_best_head(view, jobs[:PLANNED_JOBS]))
        if head.cores <= view.nodes.free_cores and view.start(head):
            head = None
        else:
            shadow = _follow(view, [head, *jobs])
    sleep_while_nothing_can_start(view)
    explain_queue(view, head, None if shadow is None else shadow.start_s)


def cost_of_start(delay_s: float, wait_s: float) -> float:
    """Return the cost of the start of a job in a plan.

    Args:
        delay_s: time until the start, s.
        wait_s: how long the job has waited, s.
    """
    return (1.0 + PER_DAY * wait_s / DAY_S) * (delay_s / (1.0 + delay_s / HALF_S))


def _best_head(view: View, jobs: Sequence[Job]) -> int:
    """Return the place of the job at the front of the best plan."""
    best, least = 0, math.inf
    if len(jobs) > 1:
        now = profile_of(view)
        for place, job in enumerate(jobs[:PLANS]):
            plan = [job, *jobs[:place], *jobs[place + 1 :]]
            cost = _cost(view.now_s, now.copy(), plan, least)
            if cost < least:
                best, least = place, cost
    return best


def _cost(now_s: float, profile: Profile, jobs: Sequence[Job], most: float) -> float:
    """Return the cost of a plan; of one with at least `most`, a part of it that is not less."""
    cost = 0.0
    for job in jobs:
        reservation = profile.earliest(job)
        if reservation is not None:
            profile.reserve(job, reservation)
            cost += cost_of_start(reservation.start_s - now_s, now_s - job.submit_s)
            if cost >= most:
                break
    return cost


def _follow(view: View, jobs: Sequence[Job]) -> Reservation | None:
    """Start jobs by reservations in their order, then others of the queue that delay none.

    Returns:
        The reservation of the first job.
    """
    profile, shadow = profile_of(view), None
    for job in jobs:
        reservation = profile.earliest(job)
        if job is jobs[0]:
            shadow = reservation
        if reservation is None:
            continue
        if reservation.start_s > view.now_s or not profile.start(view, job, reservation.allocation):
            profile.reserve(job, reservation)
        if view.nodes.free_cores == 0:
            return shadow
    planned = {job.job_id for job in jobs}
    profile.start_each(view, [job for job in view.queue.values() if job.job_id not in planned])
    return shadow
