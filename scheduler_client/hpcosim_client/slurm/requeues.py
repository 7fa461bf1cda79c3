"""Jobs that wait again after a failure of a node, which slurmctld starts only after a delay."""

from __future__ import annotations

from hpcosim_client.job import Job
from hpcosim_client.slurm.clock import ROUNDING_S
from hpcosim_client.slurm.preempt import REQUEUE_DELAY_S
from hpcosim_client.view import View


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

    def ready(self, jobs: list[Job], now_s: float) -> list[Job]:
        """Return the jobs that may start now."""
        if not self._begins_s:
            return jobs
        late = now_s + ROUNDING_S
        return [job for job in jobs if self._begins_s.get(job.job_id, late) <= late]
