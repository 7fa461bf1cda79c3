"""EASY backfilling: only the head of the queue has a reservation."""

from __future__ import annotations

from hpcosim_client.heuristics.list_scheduling import (
    sleep_while_nothing_can_start,
    start_in_order,
)
from hpcosim_client.heuristics.profile import profile_of
from hpcosim_client.heuristics.reasons import explain_queue
from hpcosim_client.view import View


def easy(view: View) -> None:
    """EASY backfilling (Mu'alem, Feitelson 2001, section 2.1).

    Jobs start in submission order until one, the head, does not fit. Its shadow time is its
    earliest start by requested run times. The cores free at the shadow time beside those of the
    head are the extra cores. A later job, in submission order, starts if it fits now and either
    ends by the shadow time or takes extra cores only.
    """
    start_in_order(view)
    view.wake_on, shadow = None, None
    if len(view.queue) > 1 and view.nodes.free_cores > 0:
        others = view.queue.values()  # a copy
        head = others.pop(0)
        profile = profile_of(view)
        shadow = profile.earliest(head)
        if shadow is not None:
            profile.reserve(head, shadow)
        for job in others:
            if job.cores <= view.nodes.free_cores:
                profile.start(view, job)
    sleep_while_nothing_can_start(view)
    explain_queue(view, expected_start_s=None if shadow is None else shadow.start_s)
