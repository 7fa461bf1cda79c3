"""Deadlines of jobs (`sbatch --deadline`), which slurmctld checks with the time limits."""

from __future__ import annotations

import math

from hpcosim_client.view import View
from hpcosim_schedulers.slurm.clock import ROUNDING_S, SiteClock
from hpcosim_schedulers.slurm.timers import LimitTimer


class Deadlines:
    """Ends waiting jobs that cannot end before their deadlines.

    Args:
        clock: the site's clock.
    """

    def __init__(self, clock: SiteClock) -> None:
        self._clock = clock
        self._timer = LimitTimer(clock)
        self._latest_s: dict[int, float] = {}  # latest start of waiting jobs with a deadline

    def end_jobs(self, view: View) -> None:
        """End the jobs whose latest start has passed, if a check is due now."""
        for job in view.arrived:
            if job.deadline_s < math.inf:
                self._latest_s[job.job_id] = job.deadline_s - job.requested_s
        for job_id, latest_s in list(self._latest_s.items()):
            job = view.queue.get(job_id) or view.pending.get(job_id)  # type: ignore[assignment]
            if job is None:
                del self._latest_s[job_id]
            elif self._due_s(latest_s) <= view.now_s + ROUNDING_S:
                del self._latest_s[job_id]
                view.reject(job, state="deadline")
                view.queue.pop(job_id, None)

    def next_s(self, view: View) -> float:
        """Return the time of the next check that could end a job; infinity: none."""
        del view
        return min(map(self._due_s, self._latest_s.values()), default=math.inf)

    def _due_s(self, latest_s: float) -> float:
        return self._timer.after(self._clock.second(latest_s) + 1)
