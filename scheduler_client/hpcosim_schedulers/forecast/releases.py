"""When running jobs end and how much they release, and all forecasts that a view allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from hpcosim_client.arrays import Floats
from hpcosim_schedulers.forecast.arrivals import Arrivals, RunningJobs
from hpcosim_schedulers.forecast.run_times import RunTimes, TimeDistribution

if TYPE_CHECKING:
    from hpcosim_client.job import Job
    from hpcosim_client.view import View


_TAIL = 0.5 ** np.arange(4.0, 13.0)
LEVELS: Floats = np.concatenate([(np.arange(30) + 0.5) / 32, 1.0 - _TAIL])
"""Levels of the quantiles by which the run time of a job is stored; dense near 1, for jobs that
have run for long."""
_EDGES = np.concatenate([[0.0], (LEVELS[1:] + LEVELS[:-1]) / 2, [1.0]])
_WEIGHTS: Floats = np.diff(_EDGES)


RAN = frozenset(("completed", "timeout", "failed"))
"""Final states of jobs whose run time says something about that of others."""


class Releases:
    """The ends of running jobs, as distributions.

    Each job has the distribution of its run time from when it started, as 39 quantiles; of these
    only those count that are longer than the time for which it has run. Jobs end independently.

    Example:
        >>> from hpcosim_schedulers.forecast import Releases, TimeDistribution
        >>> import numpy as np
        >>> releases = Releases()
        >>> half = TimeDistribution(np.array([60.0, 120.0]), np.array([0.5, 1.0]))
        >>> releases.started(7, 0.0, 4.0, half)
        >>> releases.expected(30.0, np.array([50.0, 90.0, 130.0])).tolist()
        [0.0, 2.0, 4.0]
    """

    def __init__(self) -> None:
        self._row: dict[int, int] = {}
        self._job: list[int] = []
        self._start_s: Floats = np.zeros(16)
        self._size: Floats = np.zeros(16)
        self._times_s: Floats = np.zeros((16, len(LEVELS)))

    def __len__(self) -> int:
        return len(self._job)

    def started(self, job_id: int, start_s: float, size: float, run_time: TimeDistribution) -> None:
        """Take a job that starts; one that runs already starts anew.

        Args:
            size: what it releases at its end: cores or nodes.
        """
        self.ended(job_id)
        row = len(self._job)
        if row == len(self._size):
            for name in ("_start_s", "_size", "_times_s"):
                array = getattr(self, name)
                setattr(self, name, np.concatenate([array, np.zeros_like(array)]))
        self._row[job_id] = row
        self._job.append(job_id)
        self._start_s[row], self._size[row] = start_s, size
        self._times_s[row] = run_time.quantiles(LEVELS)

    def ended(self, job_id: int) -> None:
        """Take a job that has ended or stopped; of one that is unknown, nothing is kept."""
        row = self._row.pop(job_id, None)
        if row is None:
            return
        last = self._job.pop()
        if last != job_id:
            end = len(self._job)
            self._job[row], self._row[last] = last, row
            self._start_s[row], self._size[row] = self._start_s[end], self._size[end]
            self._times_s[row] = self._times_s[end]

    def probabilities(self, now_s: float, at_s: Floats) -> Floats:
        """Return the probability that each job has ended, float64[jobs, times].

        The jobs are those of `job_ids`.

        Args:
            at_s: float64[times], times, s, not before `now_s`.
        """
        ends_s, weights = self._ends(now_s)
        found = np.empty((len(ends_s), len(at_s)))
        for place, time_s in enumerate(at_s.tolist()):
            found[:, place] = ((ends_s <= time_s) * weights).sum(1)
        return found

    @property
    def job_ids(self) -> list[int]:
        """The numbers of the running jobs, in the order of all arrays here."""
        return list(self._job)

    @property
    def sizes(self) -> Floats:
        """What each running job releases at its end, float64[jobs]."""
        return self._size[: len(self)].copy()

    def expected(self, now_s: float, at_s: Floats) -> Floats:
        """Return the expected size released until times, float64[times]; see `probabilities`."""
        return self._size[: len(self)] @ self.probabilities(now_s, at_s)

    def drawn_ends_s(self, now_s: float, samples: int, generator: Generator) -> Floats:
        """Return random ends of the jobs after now, float64[samples, jobs], s."""
        ends_s, weights = self._ends(now_s)
        edges = weights.cumsum(1)
        drawn = generator.random((samples, len(ends_s), 1))
        at = (edges < drawn).sum(2)
        at = np.minimum(at, ends_s.shape[1] - 1)
        found: Floats = np.take_along_axis(ends_s, at.T, axis=1).T
        return found

    def drawn_released(
        self, now_s: float, at_s: Floats, samples: int, generator: Generator
    ) -> Floats:
        """Return random sizes released until times, float64[samples, times]."""
        ends_s = self.drawn_ends_s(now_s, samples, generator)
        return np.stack([(ends_s <= time_s) @ self._size[: len(self)] for time_s in at_s], axis=1)

    def _ends(self, now_s: float) -> tuple[Floats, Floats]:
        """Return possible ends of each job, s, and their probabilities, float64[jobs, levels]."""
        count = len(self)
        start_s = self._start_s[:count, None]
        ends_s = start_s + self._times_s[:count]
        weights = np.where(ends_s > now_s, _WEIGHTS, 0.0)
        total = weights.sum(1, keepdims=True)
        over = np.flatnonzero(total[:, 0] <= 0.0)
        if len(over):
            left_s = np.maximum(now_s - start_s[over], 1.0)
            ends_s[over] = now_s + left_s * _BEYOND
            weights[over] = 1.0 / len(LEVELS)
            total[over] = 1.0
        return ends_s, weights / total


_BEYOND: Floats = np.array([0.25, 1.0, 4.0])[np.arange(len(LEVELS)) * 3 // len(LEVELS)]
"""Time left of a job that has run longer than expected, relative to the time it has run; see
`TimeDistribution.after`."""
assert math.isclose(float(_WEIGHTS.sum()), 1.0)


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
