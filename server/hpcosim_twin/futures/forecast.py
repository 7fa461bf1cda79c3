"""Start forecasts: simulations from an instant on, with drawn run times and submissions."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.random import Generator

from hpcosim_experiments.executors import ParallelMap
from hpcosim_protocol import JobRequest
from hpcosim_schedulers.forecast import Arrivals
from hpcosim_twin.cluster.observation import (
    DrawnRunTimes,
    EndedJob,
    JobRunTimes,
    learned,
)
from hpcosim_twin.cluster.queue_state import QueuedJob, QueueState
from hpcosim_twin.futures.compiled import starts_of
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
        beside: number of jobs, submitted now, that get the first numbers.
    """

    def __init__(self, state: QueueState, beside: int = 0) -> None:
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
        self._first = 1 + beside + max((job.job_id for job in every), default=0)
        self._copies.default_factory = None  # which could not be sent to other processes

    def drawn(
        self,
        horizon_s: float,
        generator: Generator,
        longest_s: float = LONGEST_S,
        most: int = MOST,
    ) -> list[QueuedJob]:
        """Return the submissions of one simulation, in the order of time: the first `most`."""
        has_ended = generator.random() * (END + self._goes_on) < END
        if has_ended or not self._copies:
            return []
        horizon_s = min(horizon_s, longest_s)
        found = self._arrivals.scenarios(self._now_s, horizon_s, 1, generator)
        places = generator.random(len(found.submit_s)).tolist()
        columns = (found.submit_s, found.user, found.size, found.requested_s)
        drawn = zip(*(column[:most].tolist() for column in columns), places[:most], strict=True)
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


Task = TypeVar("Task")
Result = TypeVar("Result")

LOW, HIGH = 0.1, 0.9
"""The range that is reported, as quantiles of the drawn starts."""


class StartForecast(NamedTuple):
    """When a waiting job will start.

    Attributes:
        median_s: median of the drawn starts, s; infinity: in half of them it never starts.
        low_s: their 10 % quantile, s.
        high_s: their 90 % quantile, s.
        at_limits_s: its start if each job runs until its limit, s; infinity: never.
    """

    job_id: int
    median_s: float
    low_s: float
    high_s: float
    at_limits_s: float


def forecast_starts(
    state: QueueState,
    history: Iterable[EndedJob],
    samples: int,
    seed: int,
    parallel: ParallelMap | None = None,
) -> list[StartForecast]:
    """Return a forecast for each waiting job, in the order of `state.jobs`.

    Args:
        seed: seed of all draws. The result is the same for any number of workers.
        parallel: runs the simulations; None: one after another, in this process.

    Raises:
        ForecastError: the jobs that run do not fit the cluster.
    """
    waiting = [job.spec.job_id for job in state.waiting]
    if not waiting:
        return []
    first, *seeds = np.random.SeedSequence(seed).spawn(samples + 1)
    limits = at_limits(state, np.random.default_rng(first))
    latest_s = max(limits.values(), default=state.now_s)
    knowledge = Knowledge(state, learned(history), Submissions(state), latest_s - state.now_s)
    found = map_in_batches(parallel, partial(drawn_starts, knowledge), seeds)
    drawn = np.array([[starts.get(number, math.inf) for number in waiting] for starts in found])
    median, low, high = np.quantile(drawn, (0.5, LOW, HIGH), axis=0, method="inverted_cdf").tolist()
    return [
        StartForecast(number, median[at], low[at], high[at], limits.get(number, math.inf))
        for at, number in enumerate(waiting)
    ]


def at_limits(
    state: QueueState, generator: Generator, asked: QueuedJob | None = None
) -> dict[int, float]:
    """Return the starts if each job runs until its limit and none is submitted, as `starts_of`."""
    jobs = state.jobs if asked is None else (*state.jobs, asked)
    run_s = dict.fromkeys((job.spec.job_id for job in jobs), math.inf)
    return starts_of(state, run_s, generator, asked=asked)


class Knowledge(NamedTuple):
    """What is known at an instant.

    Attributes:
        horizon_s: duration for which submissions matter, s: the latest start if all jobs run until
            their limits and no job is submitted.
        asked: a job that is not submitted, whose start is of interest; None: all others' are.
    """

    state: QueueState
    run_times: JobRunTimes
    submissions: Submissions
    horizon_s: float
    asked: QueuedJob | None = None


def drawn_starts(knowledge: Knowledge, seed: np.random.SeedSequence) -> dict[int, float]:
    """Return the starts of one simulation with drawn submissions and run times, as `starts_of`."""
    return _drawn(knowledge, seed)[0]


class StartedRun(NamedTuple):
    """A run of the asked job in a simulation, s; infinity: it does not start."""

    start_s: float
    end_s: float


def drawn_run(knowledge: Knowledge, seed: np.random.SeedSequence) -> StartedRun:
    """Return the run of the asked job in one simulation, whose draws do not depend on that job."""
    assert knowledge.asked is not None
    starts, run_s = _drawn(knowledge, seed)
    spec = knowledge.asked.spec
    start_s = starts.get(spec.job_id, math.inf)
    return StartedRun(start_s, start_s + min(run_s[spec.job_id], spec.requested_s))


def _drawn(
    knowledge: Knowledge, seed: np.random.SeedSequence
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the starts of one simulation, and the run time of each job, by number."""
    generator = np.random.default_rng(seed)
    state, run_times = knowledge.state, DrawnRunTimes(knowledge.run_times, generator)
    future = knowledge.submissions.drawn(knowledge.horizon_s, generator)
    run_s, of_policy = drawn_run_times(run_times, [*state.jobs, *future], state.now_s), generator
    if knowledge.asked is not None:  # other draws do not depend on the job
        of_policy = np.random.default_rng(generator.integers(1 << 62))
        run_s |= drawn_run_times(run_times, [knowledge.asked], state.now_s)
    return starts_of(state, run_s, of_policy, future, knowledge.asked), run_s


def drawn_run_times(
    run_times: DrawnRunTimes, jobs: Sequence[QueuedJob], now_s: float
) -> dict[int, float]:
    """Return a run time of each job, by number, s; see `DrawnRunTimes.of`."""
    passed_s = (0.0 if job.started_s is None else now_s - job.started_s for job in jobs)
    specs = [job.spec for job in jobs]
    found = run_times.of(zip(specs, passed_s, strict=True))
    return dict(zip((spec.job_id for spec in specs), found, strict=True))


BATCHES = 4
"""Batches for each worker: they end at about the same time, although some futures take longer."""


def map_in_batches(
    parallel: ParallelMap | None, function: Callable[[Task], Result], items: Sequence[Task]
) -> list[Result]:
    """Return the result of a function for each item.

    A worker gets the function, with the queue in it, anew for each batch, and prepares the
    simulations of a queue once.
    """
    if parallel is None:
        return one_after_another(function, items)
    size = max(len(items) // (BATCHES * parallel.workers), 1)
    batches = [items[at : at + size] for at in range(0, len(items), size)]
    found = parallel(partial(one_after_another, function), batches)
    return [result for results in found for result in results]


def one_after_another(function: Callable[[Task], Result], items: Iterable[Task]) -> list[Result]:
    """Return the result of a function for each item."""
    return [function(each) for each in items]
