"""Jobs that are not submitted yet, drawn from what users have submitted so far."""

from __future__ import annotations

import math
from collections import defaultdict, deque

from msgspec.structs import replace
from numpy.random import Generator

from hpcosim_protocol import JobRequest
from hpcosim_schedulers.forecast import Arrivals
from hpcosim_slurm.starts.state import QueuedJob, QueueState
from hpcosim_workloads.table import JobSpec

LONGEST_S = 86_400.0
"""Longest time for which submissions are drawn, s."""
MOST = 5000
"""Maximum number of submissions of a simulation, the first ones."""
REMEMBERED = 16
"""Number of last jobs of each kind of which a drawn job may be a copy."""

END = 0.1
"""Probability that submissions have ended with the last one."""


class Submissions:
    """Future submissions of a cluster, as copies of past ones at other times.

    `hpcosim_schedulers.forecast.Arrivals` draws time, user, number of cores and requested time. The
    job is a copy of one of the last that asked for the same, of the same user if possible, with
    its account, partition and requirements.

    Submissions may end, which `Arrivals` does not know, such as with a semester or an experiment.
    With probability `END` the last submission was the end. If x submissions were expected since
    (`Arrivals.missed`) and none came, the probability of the end is, by Bayes' rule,
    END / (END + (1 - END) exp(-x)). In a simulation after the end, nothing is submitted.

    Args:
        state: the cluster; all that has been submitted is taken from it.
    """

    def __init__(self, state: QueueState) -> None:
        self._now_s = state.now_s
        self._arrivals = Arrivals()
        self._copies: dict[tuple[str | None, float, float], deque[JobSpec]]
        self._copies = defaultdict(lambda: deque(maxlen=REMEMBERED))
        every = [*state.past, *(job.spec for job in state.jobs)]
        # Without a partition of the platform a job is none that could run.
        known = [job for job in every if job.partition or not state.platform.partitions]
        for job in sorted(known, key=lambda job: (job.submit_s, job.job_id)):
            submit_s = min(job.submit_s, state.now_s)
            self._arrivals.submitted(submit_s, job.user, float(job.cores), job.requested_s)
            for user in (job.user, None):
                self._copies[user, float(job.cores), job.requested_s].append(job)
        self._goes_on = (1.0 - END) * math.exp(-self._arrivals.missed(state.now_s))
        self._first = 1 + max((job.job_id for job in every), default=0)
        self._copies.default_factory = None  # which could not be sent to other processes

    def drawn(self, horizon_s: float, generator: Generator) -> list[QueuedJob]:
        """Return the submissions of one simulation, in the order of time.

        Args:
            horizon_s: duration from now on, s; at most `LONGEST_S`.
            generator: the source of randomness.
        """
        has_ended = generator.random() * (END + self._goes_on) < END
        if has_ended or not self._copies:
            return []
        horizon_s = min(horizon_s, LONGEST_S)
        found = self._arrivals.scenarios(self._now_s, horizon_s, 1, generator)
        places = generator.random(len(found.submit_s)).tolist()
        columns = (found.submit_s, found.user, found.size, found.requested_s)
        drawn = zip(*(column[:MOST].tolist() for column in columns), places[:MOST], strict=True)
        jobs = []
        for number, (submit_s, user, cores, requested_s, place) in enumerate(drawn):
            name = found.users[user] if user >= 0 else None
            copies = self._copies.get((name, cores, requested_s), ())
            copies = copies or self._copies[None, cores, requested_s]
            jobs.append(
                QueuedJob(_copy(copies[int(place * len(copies))], self._first + number, submit_s))
            )
        return jobs


def _copy(job: JobSpec, number: int, submit_s: float) -> JobSpec:
    """Return a new job that asks for the same, without conditions on times and other jobs."""
    request = job.request
    if request is not None:
        request = replace(
            request,
            hold=False,
            begin_s=None,
            dependencies=(),
            array_id=None,
            array_index=0,
            array_limit=0,
        )
        request = None if request == JobRequest() else request
    return job._replace(job_id=number, submit_s=submit_s, request=request)
