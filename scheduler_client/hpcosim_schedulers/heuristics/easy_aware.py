"""EASY backfilling that is aware of power states."""

from __future__ import annotations

import math

from hpcosim_client.job import Job
from hpcosim_client.profiles.node_profile import NodeProfile
from hpcosim_client.profiles.reservation import Reservation
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.heuristics.awareness import Awareness
from hpcosim_schedulers.heuristics.easy import easy
from hpcosim_schedulers.heuristics.list_scheduling import SUBMISSION
from hpcosim_schedulers.heuristics.power_aware import cheapest_start, nothing_sleeps, power_profile
from hpcosim_schedulers.heuristics.reasons import explain_queue
from hpcosim_schedulers.heuristics.wake_ahead import WakeAhead


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
