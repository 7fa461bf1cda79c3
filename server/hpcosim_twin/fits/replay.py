"""Questions to the past: jobs of the accounting asked at their submission, beside what happened."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np

from hpcosim_client.arrays import Floats
from hpcosim_experiments.executors import ParallelMap
from hpcosim_twin.answers.calibration import (
    GRAIN_S,
    PROBABILITY,
    AdaptiveRanges,
    DrawnWait,
    PastAnswer,
    ScoreRange,
    given_ranges,
    interval_score,
    wait_of_draws,
)
from hpcosim_twin.answers.table import RANGES
from hpcosim_twin.cluster.observation import ForecastError, JobRunTimes
from hpcosim_twin.cluster.observer import MOST_PAST
from hpcosim_twin.cluster.queue_state import QueuedJob, QueueState, adopted
from hpcosim_twin.cluster.recorded import Accounting, RecordedJob, state_at
from hpcosim_twin.fits.finding import finite
from hpcosim_twin.fits.run_times import RunTimeChoice
from hpcosim_twin.futures.compiled import compile_engine
from hpcosim_twin.futures.forecast import (
    Knowledge,
    Submissions,
    at_limits,
    drawn_run,
    map_in_batches,
)

SOON_S = 60.0
"""Wait from which a job is asked about, s: schedulers work in passes of about a minute."""
ENGINE_AFTER = 5
"""Number of questions on the reference, before the engine is compiled: the queue is not empty."""
MANY_FUTURES = 2000
"""Number of simulations from which on the compiled engine is worth being compiled, for minutes."""


class Asked(NamedTuple):
    """A job that is asked about at its submission.

    Attributes:
        asked_s: its submission, s.
        wait_s: how long it waited, s.
        drawn_s: float64[futures], its waits in the simulations, s; infinity: it never started.
    """

    partition: str
    account: str
    asked_s: float
    wait_s: float
    drawn_s: Floats


def drawn_waits(
    state: QueueState,
    asked: QueuedJob,
    run_times: JobRunTimes,
    futures: int,
    seed: int | Sequence[int],
    parallel: ParallelMap | None = None,
) -> Floats:
    """Return the waits of a job that is submitted now, in simulations with drawn futures.

    Args:
        state: the cluster without the job.

    Returns:
        float64[futures], s; infinity: it does not start.

    Raises:
        ForecastError: the jobs that run do not fit the cluster.
    """
    past = sorted(state.past, key=lambda job: (job.submit_s, job.job_id))[-MOST_PAST:]
    state = replace(state, past=past)
    first, *seeds = np.random.SeedSequence(seed).spawn(futures + 1)
    limits = at_limits(state, np.random.default_rng(first), asked)
    horizon_s = max((state.now_s, *limits.values())) - state.now_s
    knowledge = Knowledge(state, run_times, Submissions(state, beside=1), horizon_s, asked)
    runs = map_in_batches(parallel, partial(drawn_run, knowledge), seeds)
    return np.maximum([run.start_s - state.now_s for run in runs], 0.0)


def sampled(
    accounting: Accounting, first_s: float, last_s: float, most: int, seed: int
) -> list[RecordedJob]:
    """Return jobs submitted in [first_s, last_s) that waited for `SOON_S` and started, at random.

    Jobs that became eligible later are left out: until then, nothing says when they will start.
    """
    jobs = [
        job
        for job in accounting.jobs
        if first_s <= job.submit_s < last_s
        and job.runs
        and job.start_s - job.submit_s > SOON_S
        and (job.asked.eligible_s or 0.0) <= job.submit_s
    ]
    if len(jobs) > most:
        rows = np.random.default_rng(seed).choice(len(jobs), most, replace=False)
        jobs = [jobs[row] for row in sorted(rows.tolist())]
    return jobs


def asked_about(
    accounting: Accounting,
    jobs: Sequence[RecordedJob],
    choice: RunTimeChoice,
    futures: int,
    seed: int,
    parallel: ParallelMap | None = None,
    warn: Callable[[str], object] = lambda _: None,
) -> Iterator[Asked]:
    """Yield the answers about jobs at their submission, with what was known then.

    Args:
        jobs: in the order of submission. One that the model cannot start, such as one of an unknown
            partition, has no answer.
        warn: gets what keeps jobs from an answer.
    """
    model, learned_until_s, silent = JobRunTimes(*choice), -math.inf, 0
    for number, job in enumerate(jobs):
        now_s = job.submit_s
        for each in accounting.ended_by(now_s, learned_until_s):
            if each.ended is not None:
                model.learn(each.ended)
        learned_until_s = now_s
        try:
            found = adopted(state_at(accounting, now_s)).state
            own = [each for each in found.waiting if each.spec.job_id == job.asked.id]
            if not own or (own[0].spec.request is not None and own[0].spec.request.hold):
                silent += 1
                continue
            others = [each for each in found.jobs if each is not own[0]]
            state = replace(found, jobs=others)
            if number == ENGINE_AFTER and len(jobs) * futures >= MANY_FUTURES:
                compile_engine(state, own[0])
            drawn_s = drawn_waits(state, own[0], model, futures, (seed, job.asked.id), parallel)
        except ForecastError:
            silent += 1
            continue
        asked = job.asked
        yield Asked(asked.partition, asked.account, now_s, job.start_s - now_s, drawn_s)
    if silent:
        warn(f"{silent} jobs have no answer: the model has no start for them")


class Judged(NamedTuple):
    """An answer with its ranges by what was known when it was given.

    Attributes:
        given: the ranges of scores by probability.
    """

    asked: Asked
    drawn: DrawnWait
    given: Mapping[float, ScoreRange]

    def range_s(self, probability: float) -> tuple[float, float]:
        """Return a range of the wait, s."""
        low, high = self.given[probability]
        return self.drawn.wait_s(low), self.drawn.wait_s(high)


def judged(asked: Sequence[Asked], ranges: AdaptiveRanges) -> list[Judged]:
    """Return answers with their ranges, which learn from the answers whose jobs have started."""
    drawn = [wait_of_draws(each.drawn_s) for each in asked]
    answers = (
        PastAnswer(each.asked_s, wait, each.asked_s + each.wait_s)
        for each, wait in zip(asked, drawn, strict=True)
    )
    given = given_ranges(answers, ranges)
    return [Judged(*each) for each in zip(asked, drawn, given, strict=True)]


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """How good the answers about a group of jobs are. Times in s; None: infinite.

    Attributes:
        mean_wait_s, median_wait_s: of what happened.
        mean_error_s, median_error_s: mean and median of the drawn medians less the former.
        error_s: median absolute error of the drawn median.
        coverage: share of the waits within the ranges, by their probability.
        width_s: median width of the ranges, by their probability.
        interval_score_s: mean interval score of the range of 80 %.
    """

    group: str
    jobs: int
    mean_wait_s: float
    median_wait_s: float
    mean_error_s: float | None
    median_error_s: float | None
    error_s: float | None
    coverage: dict[str, float]
    width_s: dict[str, float | None]
    interval_score_s: float | None


def quality(group: str, found: Sequence[Judged]) -> Quality:
    """Return how good answers are, of which there is at least one."""
    waits = np.array([each.asked.wait_s for each in found])
    medians = np.array([each.drawn.wait_s(0.0) for each in found])
    coverage: dict[str, float] = {}
    width_s: dict[str, float | None] = {}
    scores: Floats = np.zeros(len(found))
    for probability in RANGES:
        low, high = np.array([each.range_s(probability) for each in found]).T
        inside = (waits >= low - GRAIN_S) & (waits <= high + GRAIN_S)
        coverage[str(probability)] = float(inside.mean())
        width_s[str(probability)] = finite(float(np.median(high - low)))
        if probability == PROBABILITY:
            scores = interval_score(low, high, waits, probability)
    return Quality(
        group=group,
        jobs=len(found),
        mean_wait_s=float(waits.mean()),
        median_wait_s=float(np.median(waits)),
        mean_error_s=finite(float(medians.mean() - waits.mean())),
        median_error_s=finite(float(np.median(medians) - np.median(waits))),
        error_s=finite(float(np.median(np.abs(medians - waits)))),
        coverage=coverage,
        width_s=width_s,
        interval_score_s=finite(float(scores.mean())),
    )


def by_group(found: Sequence[Judged]) -> list[Quality]:
    """Return the quality of all answers, by partition and by account."""
    groups: dict[str, list[Judged]] = {"all": list(found)}
    for each in found:
        groups.setdefault(f"partition {each.asked.partition or '(none)'}", []).append(each)
    for each in found:
        if each.asked.account:
            groups.setdefault(f"account {each.asked.account}", []).append(each)
    return [quality(name, each) for name, each in groups.items() if each]


def reliability(found: Sequence[Judged], levels: Sequence[float]) -> list[float]:
    """Return the share of waits up to each quantile of what was drawn and calibrated.

    Args:
        levels: of the quantiles: 0.5, of the median that was drawn, and the ends of `RANGES`.
    """
    ends: dict[float, list[bool]] = {level: [] for level in levels}
    for each in found:
        reached_s = {0.5: each.drawn.wait_s(0.0)}
        for probability in RANGES:
            low_s, high_s = each.range_s(probability)
            reached_s |= {(1 - probability) / 2: low_s, (1 + probability) / 2: high_s}
        for level in levels:
            ends[level].append(each.asked.wait_s <= reached_s[level] + GRAIN_S)
    return [float(np.mean(ends[level])) for level in levels]
