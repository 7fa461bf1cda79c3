"""Forecasts for a policy, from what its view shows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from numpy.random import Generator

from hpcosim_schedulers.forecast.arrivals import Arrivals, RunningJobs
from hpcosim_schedulers.forecast.releases import Releases
from hpcosim_schedulers.forecast.run_times import RunTimes

if TYPE_CHECKING:
    from hpcosim_client.job import Job
    from hpcosim_client.view import View

RAN = frozenset(("completed", "timeout", "failed"))
"""Final states of jobs whose run time says something about that of others."""


def cores_of(job: Job) -> float:
    """Return the number of cores that a job requests."""
    return float(job.cores)


class ViewForecast:
    """Arrivals, run times and releases, learned from the view of a policy.

    Call `update` at every call of the policy, after its decisions. A run time counts until the call
    in which its end is seen, so the policy should be called at every end: `wake_on` of the view
    must have `job_completed`, and `job_submitted` for the times of submissions.

    Args:
        size_of: the size of a job that arrivals and releases count; default: its cores. A running
            job has an allocation, so `len(job.allocation.nodes)` can be its number of nodes.

    Attributes:
        arrivals, run_times, releases: the models.
    """

    def __init__(self, size_of: Callable[[Job], float] = cores_of) -> None:
        self.arrivals, self.run_times, self.releases = Arrivals(), RunTimes(), Releases()
        self._size_of = size_of
        self._submitted = 0
        # Start, later if it was suspended, and user of each running job
        self._runs: dict[int, tuple[float, str]] = {}

    def update(self, view: View) -> None:
        """Take what has happened since the last call; ends of now before submissions of now."""
        fresh = self._fresh(view)
        for job in fresh:
            if job.submit_s < view.now_s:
                self._submit(job)
        for job in view.left:
            if job.ended_as in RAN:
                run_s = view.now_s - job.start_s - job.suspended_s
                self.run_times.ended(job.user, job.group, job.requested_s, job.cores, run_s)
                self.arrivals.ended(view.now_s, job.user, run_s)
        for job in fresh:
            if job.submit_s >= view.now_s:
                self._submit(job)
        self._follow(view)

    def drawn_ends(self, now_s: float, samples: int, generator: Generator) -> RunningJobs:
        """Return samples of the ends of the running jobs, in the order of `releases.job_ids`."""
        ends_s = self.releases.drawn_ends_s(now_s, samples, generator)
        return RunningJobs([self._runs[job][1] for job in self.releases.job_ids], ends_s)

    def _fresh(self, view: View) -> list[Job]:
        """Return the jobs that were submitted since the last call, in order."""
        fresh = {  # a job may be listed twice
            job.order: job
            for jobs in (view.arrived, view.pending.values())
            for job in jobs
            if job.order >= self._submitted
        }
        self._submitted = max(fresh, default=self._submitted - 1) + 1
        return [fresh[order] for order in sorted(fresh)]

    def _submit(self, job: Job) -> None:
        self.arrivals.submitted(job.submit_s, job.user, self._size_of(job), job.requested_s)

    def _follow(self, view: View) -> None:
        """Compare the running jobs with those known."""
        running = view.running
        for job_id in [each for each in self._runs if each not in running]:
            self.releases.ended(job_id)
            del self._runs[job_id]
        for job_id, job in running.items():
            run = job.start_s + job.suspended_s, job.user
            if self._runs.get(job_id) != run and not math.isnan(run[0]):
                self._runs[job_id] = run
                run_time = self.run_times.distribution(
                    job.user, job.group, job.requested_s, job.cores
                )
                self.releases.started(job_id, run[0], self._size_of(job), run_time)
