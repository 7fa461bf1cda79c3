"""EASY backfilling: only the head of the queue has a reservation."""

from __future__ import annotations

from hpcosim_client.job import Job
from hpcosim_client.profiles.profile import profile_of
from hpcosim_client.profiles.reservation import Reservation
from hpcosim_client.view import View
from hpcosim_schedulers.heuristics.list_scheduling import (
    sleep_while_nothing_can_start,
    start_in_order,
)
from hpcosim_schedulers.heuristics.reasons import explain_queue


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
