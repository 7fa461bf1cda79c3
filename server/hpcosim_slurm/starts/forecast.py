"""The range of the start of each waiting job, over many simulations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from hpcosim_experiments.executors import ParallelMap
from hpcosim_schedulers.forecast import RunTimes
from hpcosim_slurm.starts.forward import starts_of
from hpcosim_slurm.starts.run_times import DrawnRunTimes, EndedJob, learned
from hpcosim_slurm.starts.state import QueueState
from hpcosim_slurm.starts.submissions import Submissions

Task = TypeVar("Task")
Result = TypeVar("Result")

LOW, HIGH = 0.1, 0.9
"""The range that is reported, as quantiles of the drawn starts."""


class StartForecast(NamedTuple):
    """When a waiting job will start.

    Attributes:
        job_id: its number.
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
        state: the cluster.
        history: ended jobs, the oldest first.
        samples: number of simulations, >= 1.
        seed: seed of all draws. The result is the same for any number of workers.
        parallel: runs the simulations; None: one after another, in this process.

    Raises:
        ForecastError: the jobs that run do not fit the cluster.
    """
    waiting = [job.spec.job_id for job in state.waiting]
    if not waiting:
        return []
    first, *seeds = np.random.SeedSequence(seed).spawn(samples + 1)
    at_limit = dict.fromkeys((job.spec.job_id for job in state.jobs), math.inf)
    at_limits = starts_of(state, at_limit, np.random.default_rng(first))
    latest_s = max(at_limits.values(), default=state.now_s)
    knowledge = Knowledge(state, learned(history), Submissions(state), latest_s - state.now_s)
    mapped = parallel or _one_after_another
    found = mapped(partial(drawn_starts, knowledge), seeds)
    drawn = np.array([[starts.get(number, math.inf) for number in waiting] for starts in found])
    median, low, high = np.quantile(drawn, (0.5, LOW, HIGH), axis=0, method="inverted_cdf").tolist()
    return [
        StartForecast(number, median[at], low[at], high[at], at_limits.get(number, math.inf))
        for at, number in enumerate(waiting)
    ]


class Knowledge(NamedTuple):
    """What is known at an instant.

    Attributes:
        state: the cluster.
        run_times: the model of run times.
        submissions: the model of submissions.
        horizon_s: duration for which submissions matter, s: the latest start if all jobs run until
            their limits and no job is submitted.
    """

    state: QueueState
    run_times: RunTimes
    submissions: Submissions
    horizon_s: float


def drawn_starts(knowledge: Knowledge, seed: np.random.SeedSequence) -> dict[int, float]:
    """Return the starts of one simulation with drawn submissions and run times, as `starts_of`."""
    generator = np.random.default_rng(seed)
    state, run_times = knowledge.state, DrawnRunTimes(knowledge.run_times, generator)
    future = knowledge.submissions.drawn(knowledge.horizon_s, generator)
    run_s = {
        job.spec.job_id: run_times.of(
            job.spec, 0.0 if job.started_s is None else state.now_s - job.started_s
        )
        for job in (*state.jobs, *future)
    }
    return starts_of(state, run_s, generator, future)


def _one_after_another(function: Callable[[Task], Result], items: Iterable[Task]) -> list[Result]:
    return [function(each) for each in items]
