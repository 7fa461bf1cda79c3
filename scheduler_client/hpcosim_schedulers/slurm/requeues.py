"""Jobs that wait again after a failure of a node, which slurmctld starts only after a delay."""

from __future__ import annotations

import math

from hpcosim_client.job import Job
from hpcosim_client.view import View
from hpcosim_schedulers.slurm.clock import ROUNDING_S
from hpcosim_schedulers.slurm.preempt import REQUEUE_DELAY_S


class RequeueDelays:
    """The begin times of requeued jobs: `REQUEUE_DELAY_S` after their requeue."""

    def __init__(self) -> None:
        self._begins_s: dict[int, float] = {}

    def note(self, view: View) -> None:
        """Note the jobs whose run ended and that wait again."""
        for job in view.left:
            if job.allocation is None and (job.job_id in view.pending or job.job_id in view.queue):
                self._begins_s[job.job_id] = view.now_s + REQUEUE_DELAY_S
            else:
                self._begins_s.pop(job.job_id, None)

    def next_s(self, now_s: float) -> float:
        """Return the next begin time after now, simulated seconds; infinity: none."""
        later = (at_s for at_s in self._begins_s.values() if at_s > now_s + ROUNDING_S)
        return min(later, default=math.inf)

    def ready(self, jobs: list[Job], now_s: float) -> list[Job]:
        """Return the jobs that may start now."""
        if not self._begins_s:
            return jobs
        late = now_s + ROUNDING_S
        return [job for job in jobs if self._begins_s.get(job.job_id, late) <= late]


def waited_for_time(job: Job) -> bool:
    """Return whether a job of the queue may have become eligible by the passing of time."""
    request = job.request
    if request is None or (request.begin_s is None and not request.dependencies and not job.runs):
        return False
    delayed = any(each.delay_s for each in request.dependencies)
    return request.begin_s is not None or delayed or job.runs > 0
