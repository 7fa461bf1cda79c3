"""EASY backfilling: only the head of the queue has a reservation."""

from __future__ import annotations

from itertools import islice

from hpcosim_client.heuristics.list_scheduling import (
    first_come_first_served,
    sleep_while_nothing_can_start,
)
from hpcosim_client.heuristics.profile import profile_of
from hpcosim_client.view import View


def easy(view: View) -> None:
    """Decide anew at every event (Mu'alem, Feitelson 2001, section 2.1).

    Jobs start in submission order until the head finds no room. Its shadow time is the
    earliest at which, by requested run times, it does; what is then free beside it are the
    extra cores. A later job, in submission order, may start if there is room now and it either
    ends by the shadow time or takes no more than the extra cores, which it then uses up.
    """
    first_come_first_served(view)
    view.wake_on = None
    if len(view.queue) > 1 and view.nodes.free_cores > 0:
        jobs = view.queue.values()
        head = jobs[0]
        profile = profile_of(view)
        shadow = profile.earliest(head, view.now_s)
        if shadow is not None:
            profile.keep(head, shadow)
        for job in islice(jobs, 1, None):
            if job.cores <= view.nodes.free_cores:
                profile.start(view, job)
    sleep_while_nothing_can_start(view)
