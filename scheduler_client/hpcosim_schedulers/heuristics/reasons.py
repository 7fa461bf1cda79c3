"""Why the jobs of a queue wait: explanations of policies with a head of the queue."""

from __future__ import annotations

import math

from hpcosim_client.job import Job
from hpcosim_client.profiles import profile_of
from hpcosim_client.view import View


def explain_queue(
    view: View,
    head: Job | None = None,
    expected_start_s: float | None = None,
    reason: str = "Resources",
) -> None:
    """Explain that one job, the head of the queue, waits for resources and all others for it.

    Call it after the decisions of a policy; it does nothing unless the view explains. Its cost does
    not grow with the queue: it visits the jobs that arrived, the previous head and the head.

    Args:
        view: the view.
        head: the first job that does not fit; None: the first job of the queue.
        expected_start_s: expected start of the head, simulated seconds; infinity: unknown. None:
            its earliest start by the requested times of running jobs.
        reason: reason of the head.
    """
    if not view.explains:
        return
    before, view.head = view.head, head or (view.queue.first() if view.queue else None)
    for job in view.arrived if before is None else (*view.arrived, before):
        if job is not view.head and job.job_id in view.queue:
            view.explain(job, "Priority")
    if view.head is None:
        return
    if expected_start_s is None:
        earliest = profile_of(view).earliest(view.head)
        expected_start_s = math.inf if earliest is None else earliest.start_s
    view.explain(view.head, reason, expected_start_s if expected_start_s < math.inf else None)
