"""Synthetic workloads from a log: the "sampled" and the "synthetic" datasets of a paper.

"Improving the Efficiency of a Deep Reinforcement Learning-Based Power Management System for HPC
Clusters Using Curriculum Learning", section 3.2. Both draw jobs from a log. The arrivals of
`sampled` are a Poisson process with the log's mean rate. Those of `seasonal` (the paper's
"synthetic") follow the log's weekly and daily pattern.

A log that is too short, or an argument out of range, is a `WorkloadError`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hpcosim_workloads.errors import WorkloadError, check
from hpcosim_workloads.table import JobTable

FloatArray = NDArray[np.float64]

HOUR_S = 3_600.0
DAY_S = 86_400.0
DAY_HOURS = 24
WEEK_DAYS = 7
MAX_JOBS = 100_000_000


def sampled(rng: np.random.Generator, log: JobTable, *, jobs: int) -> JobTable:
    """Draw jobs of a log, with Poisson arrivals at the log's mean rate.

    Source: the paper's section 3.2.2 and Algorithm 1. It draws "a subset", so jobs are drawn
    without replacement; after all jobs of the log, drawing starts again with all of them. The
    order of the jobs is random.

    The first job is submitted at 0, and submission times are rounded down to whole seconds. Time 0
    has no weekday and no hour. A drawn job keeps all its properties except number and submission
    time. `JobTable.skipped` is that of the log.

    Args:
        jobs: number of jobs, >= 1; ids count from 1.
    """
    check(jobs >= 1, "jobs", jobs, "1 or more")
    mean_s = mean_interarrival_s(log)
    gap_s = rng.exponential(mean_s, jobs)
    gap_s[0] = 0.0
    rounds = -(-jobs // len(log))
    rows = np.concatenate([rng.permutation(len(log)) for _ in range(rounds)])[:jobs]
    return _submitted(log.take(rows), np.floor(np.cumsum(gap_s)))


def mean_interarrival_s(log: JobTable) -> float:
    """Return the mean time between submissions, s: the paper's equation (14)."""
    if len(log) <= 1:
        raise WorkloadError(f"{_counted(log)}; the mean time between jobs needs at least two")
    return float(log.submit_s[-1] - log.submit_s[0]) / (len(log) - 1)


def seasonal(
    rng: np.random.Generator,
    log: JobTable,
    *,
    days: int,
    start_s: float = 0.0,
    pairs: bool = False,
    max_jobs: int = MAX_JOBS,
) -> JobTable:
    """Draw jobs of a log, with the log's arrivals by weekday and hour: the paper's "synthetic".

    Source: the paper's section 3.2.3. The number of jobs of a day is the log's mean of its
    weekday, and each hour has the log's share of the day. Minutes and seconds are uniform. These
    numbers are rounded up or down at random, so that their mean is exact and the hours add up to
    the day. All Mondays are alike, while those of a log differ more.

    Sizes and run times are drawn with replacement from the log's jobs. Placement and memory per
    task are those of the job that supplies the size; requested time, operations, memory volume,
    maximum energy and profile are those of the job that supplies the run time. `JobTable.skipped`
    is that of the log.

    Time 0 is Monday 00:00. Submission times are whole seconds. The last day may be any weekday.

    Args:
        days: number of days, >= 1; job ids count from 1.
        start_s: time 0 of the log in seconds after Monday 00:00, see `log_start_s`.
        pairs: draw size and run time from the same job, so that the mean load is the log's. The
            paper draws them independently, which changes the load where size and run time are
            correlated: -52 % with NASA iPSC, -27 % with SDSC SP2, +15 % with CTC SP2.
        max_jobs: maximum number of jobs.

    Raises:
        WorkloadError: `days` is below 1, the log has no jobs or covers less than a week, or there
            would be more than `max_jobs` jobs.
    """
    check(days >= 1, "days", days, "1 or more")
    a_day = np.floor(np.resize(weekly_pattern(log, start_s), days) + rng.random(days))
    if a_day.sum() > max_jobs:
        what = f"{days} days have {a_day.sum():.0f} jobs, the maximum is {max_jobs}; reduce days"
        raise WorkloadError(what)
    submit_s = _spread(rng, a_day, hourly_pattern(log, start_s))
    sizes, runs = rng.integers(len(log), size=(2, submit_s.size))
    jobs = log.take(runs)
    if not pairs:
        of_size = log.take(sizes)
        columns = {name: getattr(of_size, name) for name in ("cores", "placement", "memory_mb")}
        jobs = replace(jobs, **columns)
    return _submitted(jobs, submit_s)


def weekly_pattern(log: JobTable, start_s: float = 0.0) -> FloatArray:
    """Return the mean number of jobs of each weekday, Monday first, float64[7].

    Source: the paper's section 3.2.3, (1). Every day from that of the first job to that of the
    last counts as a whole day.
    """
    if not len(log):
        raise WorkloadError(f"{_counted(log)}; a weekly pattern needs jobs of a week")
    day = np.floor((log.submit_s + start_s) / DAY_S).astype(np.int64)
    first, covered = int(day[0]), int(day[-1] - day[0]) + 1
    if covered < WEEK_DAYS:
        raise WorkloadError(f"the log covers {covered} days; a weekly pattern needs at least 7")
    whole_weeks, more = divmod(covered, WEEK_DAYS)
    since_first = (np.arange(WEEK_DAYS) - first) % WEEK_DAYS
    occurred = whole_weeks + (since_first < more)
    pattern: FloatArray = np.bincount(day % WEEK_DAYS, minlength=WEEK_DAYS) / occurred
    return pattern


def hourly_pattern(log: JobTable, start_s: float = 0.0) -> FloatArray:
    """Return the share of each hour of the day in all jobs, from 0:00, float64[24] of sum 1.

    Source: the paper's section 3.2.3, (2).
    """
    if not len(log):
        raise WorkloadError(f"{_counted(log)}; an hourly pattern needs at least one")
    hour = np.floor((log.submit_s + start_s) / HOUR_S).astype(np.int64) % DAY_HOURS
    pattern: FloatArray = np.bincount(hour, minlength=DAY_HOURS) / len(log)
    return pattern


def _spread(rng: np.random.Generator, a_day: FloatArray, shares: FloatArray) -> FloatArray:
    """Draw submission times, s, whole numbers in ascending order."""
    up_to = np.concatenate(([0.0], np.cumsum(shares)))
    # One draw for all hours of a day: the mean of each hour is exact, and so is the sum of the day.
    sums = np.floor(np.outer(a_day, up_to / up_to[-1]) + rng.random((a_day.size, 1)))
    an_hour = np.diff(sums).astype(np.int64).ravel()
    hours_s = np.repeat(np.arange(an_hour.size) * HOUR_S, an_hour)
    return np.sort(hours_s + rng.integers(int(HOUR_S), size=hours_s.size))


def _submitted(jobs: JobTable, submit_s: FloatArray) -> JobTable:
    """Return the jobs with these submission times, numbered from 1."""
    numbers = np.arange(1, len(jobs) + 1, dtype=np.int64)
    return replace(jobs.at(submit_s), job_id=numbers)


def _counted(log: JobTable) -> str:
    return f"the log has {len(log) or 'no'} job{'' if len(log) == 1 else 's'} to draw from"
