"""EASY backfilling: only the head of the queue has a reservation."""

from __future__ import annotations

import math

from hpcosim_client.job import Job
from hpcosim_client.profiles import NodeProfile, Reservation, profile_of
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.heuristics.awareness import Awareness
from hpcosim_schedulers.heuristics.list_scheduling import (
    SUBMISSION,
    sleep_while_nothing_can_start,
    start_in_order,
)
from hpcosim_schedulers.heuristics.power_aware import cheapest_start, nothing_sleeps, power_profile
from hpcosim_schedulers.heuristics.reasons import explain_queue
from hpcosim_schedulers.heuristics.wake_ahead import WakeAhead


def easy(view: View) -> None:
    """EASY backfilling (Mu'alem, Feitelson 2001, section 2.1).

    Jobs start in submission order until one, the head, does not fit. Its shadow time is its
    earliest start by requested run times. The cores free at the shadow time beside those of the
    head are the extra cores. A later job, in submission order, starts if it fits now and either
    ends by the shadow time or takes extra cores only.
    """
    start_in_order(view)
    view.wake_on, shadow = None, None
    if len(view.queue) > 1:
        shadow = backfill_behind(view, view.queue.first())
    sleep_while_nothing_can_start(view)
    explain_queue(view, expected_start_s=None if shadow is None else shadow.start_s)


def backfill_behind(view: View, head: Job) -> Reservation | None:
    """Start jobs that do not delay a head that does not fit, in submission order.

    Args:
        view: the view; more than one job waits.
        head: a job of the queue.

    Returns:
        The reservation of the head; None: no reservation was needed, or there is none.
    """
    free_cores = view.nodes.free_cores
    if free_cores == 0:
        return None
    small = [job for job in view.queue.values() if job.cores <= free_cores]
    if not view.explains and len(small) <= (head.cores <= free_cores):
        return None  # no other job fits
    profile = profile_of(view)
    shadow = profile.earliest(head)
    if shadow is not None:
        profile.reserve(head, shadow)
    profile.start_each(view, [job for job in small if job is not head])
    return shadow


# EASY backfilling that is aware of power states.


def easy_aware(awareness: Awareness) -> Policy:
    """Return EASY (see `easy`) with estimates that include the time to boot.

    Jobs are considered in submission order. A job starts if it can be allocated nodes now and no
    later start runs earlier. The first other job is the head; its reservation is not delayed by
    later jobs. With `planned`, each later job that can run within the longest boot time has a
    reservation too, so that nodes are switched on for all of them.

    Args:
        awareness: `aware` or `planned`, see `Awareness`.
    """
    wake_ahead = WakeAhead(awareness)

    def decide(view: View) -> None:
        if nothing_sleeps(view):
            easy(view)
            return
        reserved = _go_through(view, awareness) if view.queue else {}
        wake_ahead.follow(view, list(reserved.values()))
        if not view.queue:
            view.wake_on = SUBMISSION
        head, reservation = next(iter(reserved.items()), (None, None))
        explain_queue(view, head, None if reservation is None else reservation.runs_s)

    return decide


def _go_through(view: View, awareness: Awareness) -> dict[Job, Reservation]:
    """Start jobs that can start now, and return the reservations of others, the head first."""
    profile, now_s = power_profile(view, awareness), view.now_s
    soon_s = now_s + float(view.nodes.switch_on_s.max())
    reservations: dict[Job, Reservation] = {}
    for job in view.queue.values():
        until_s = soon_s if reservations else math.inf
        start = cheapest_start(view, profile, awareness, job, now_s, until_s)
        if start is None or _started(view, profile, job, start):
            continue
        if not reservations or awareness == "planned":
            profile.reserve(job, start)
            reservations[job] = start
    return reservations


def _started(view: View, profile: NodeProfile, job: Job, start: Reservation) -> bool:
    """Start a job if its reservation begins now and its cores are free; return whether it did."""
    if start.start_s > view.now_s or start.allocation is None:
        return False
    if not view.start_at(job, start.allocation):
        return False
    profile.reserve(job, start)
    return True
