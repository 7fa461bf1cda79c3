"""EASY backfilling that knows of power states."""

from __future__ import annotations

import math

from hpcosim_client.heuristics.awareness import Awareness
from hpcosim_client.heuristics.easy import easy
from hpcosim_client.heuristics.list_scheduling import SUBMISSION
from hpcosim_client.heuristics.node_profile import NodeProfile
from hpcosim_client.heuristics.power_aware import cheapest_start, nothing_sleeps, power_profile
from hpcosim_client.heuristics.reservation import Reservation
from hpcosim_client.heuristics.wake_ahead import WakeAhead
from hpcosim_client.job import Job
from hpcosim_client.view import Policy, View


def easy_aware(awareness: Awareness) -> Policy:
    """Return EASY (see `easy`) with estimates that count the time to boot.

    Jobs are looked at in submission order. One that can be given nodes now, and runs the earliest
    so, has them. The first that can't is the head: it has the reservation that no later job
    delays. If planned, later jobs that can run by the time a node takes to boot have theirs, too,
    so that nodes are switched on for each of them at once, and for none in vain.

    Args:
        awareness: `aware` or `planned`, see `power_aware`.
    """
    wake_ahead = WakeAhead(awareness)

    def decide(view: View) -> None:
        if nothing_sleeps(view):
            easy(view)
            return
        reservations = _go_through(view, awareness) if view.queue else []
        wake_ahead.follow(view, reservations)
        if not view.queue:
            view.wake_on = SUBMISSION

    return decide


def _go_through(view: View, awareness: Awareness) -> list[Reservation]:
    """Start what can be started, and return the reservations of what can't."""
    profile, now_s = power_profile(view, awareness), view.now_s
    soon_s = now_s + float(view.nodes.switch_on_s.max())
    reservations: list[Reservation] = []
    for job in view.queue.values():
        until_s = soon_s if reservations else math.inf
        start = cheapest_start(view, profile, awareness, job, now_s, until_s)
        if start is None or _started(view, profile, job, start):
            continue
        if not reservations or awareness == "planned":
            profile.keep(job, start)
            reservations.append(start)
    return reservations


def _started(view: View, profile: NodeProfile, job: Job, start: Reservation) -> bool:
    """Start a job if its reservation begins now, in fact, and say so."""
    if start.start_s > view.now_s or start.place is None or not view.start_at(job, start.place):
        return False
    profile.keep(job, start)
    return True
