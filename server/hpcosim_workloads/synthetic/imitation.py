"""Workloads that imitate a log: the "sampled" and the "synthetic" datasets of a paper.

"Improving the Efficiency of a Deep Reinforcement Learning-Based Power Management System for HPC
Clusters Using Curriculum Learning", section 3.2. Both draw jobs that occur in a log; `sampled`
has them come at random at the log's mean rate, `seasonal` (the paper's "synthetic") by the weekday
and the hour as they came in the log.
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
MOST_JOBS = 100_000_000


def sampled(rng: np.random.Generator, log: JobTable, *, jobs: int) -> JobTable:
    """Draw jobs of a log at random, to come as a Poisson process at the log's mean rate.

    Source: the paper's section 3.2.2 and Algorithm 1. It draws "a subset", so jobs are drawn
    without replacement; when every job of the log has been drawn, all are put back. They come in
    the order they are drawn, so nothing is left of what followed what in the log.

    The first is submitted at 0, and submit times are cut to whole seconds. Time 0 is no hour of
    any day. What is known of a job but its number and submit time stays with it.

    Args:
        rng: the only source of randomness.
        log: the jobs to draw from, in order of submission.
        jobs: how many jobs, with ids from 1.

    Raises:
        WorkloadError: `jobs` is below 1, or the log has less than two jobs.
    """
    check(jobs >= 1, "jobs", jobs, "1 or more")
    mean_s = mean_interarrival_s(log)
    gap_s = rng.exponential(mean_s, jobs)
    gap_s[0] = 0.0
    rounds = -(-jobs // len(log))
    rows = np.concatenate([rng.permutation(len(log)) for _ in range(rounds)])[:jobs]
    return _submitted(log.take(rows), np.floor(np.cumsum(gap_s)))


def mean_interarrival_s(log: JobTable) -> float:
    """Return the mean time between submissions, seconds: the paper's equation (14).

    Raises:
        WorkloadError: the log has less than two jobs.
    """
    if len(log) <= 1:
        raise WorkloadError(f"{_counted(log)}; a mean time between jobs needs two or more")
    return float(log.submit_s[-1] - log.submit_s[0]) / (len(log) - 1)


def seasonal(
    rng: np.random.Generator,
    log: JobTable,
    *,
    days: int,
    start_s: float = 0.0,
    pairs: bool = False,
    most_jobs: int = MOST_JOBS,
) -> JobTable:
    """Draw jobs that come by the weekday and the hour as a log's do: the paper's "synthetic".

    Source: the paper's section 3.2.3. A day has the log's mean count of its weekday, and an
    hour its share of that; minutes and seconds are uniform. Counts are seldom whole: each is
    rounded up or down at random, so that it is the pattern's in the mean and those of the hours
    make up the day's. So one Monday is like another; in a log they differ far more.

    Sizes and run times are drawn with replacement from those of the log's jobs. With a size goes
    what else says where a job runs (placement, memory a task), with a run time what else says how
    it runs (requested time, operations, memory volume, maximum energy, profile).

    Time 0 is a Monday, 00:00; submit times are whole seconds. The last day need not be a Sunday.

    Args:
        rng: the only source of randomness.
        log: the jobs to draw from, in order of submission.
        days: how many days to fill; job ids count from 1.
        start_s: when time 0 of the log is, in seconds after a Monday, 00:00; see `log_start_s`.
        pairs: draw size and run time together, of one job of the log, and the load is the log's
            in the mean. The paper draws them apart, and where large jobs run longer than small
            ones the load falls: by 52 % with NASA iPSC's log, 27 % with SDSC SP2's; with CTC
            SP2's it rises by 15 %.
        most_jobs: more are refused.

    Raises:
        WorkloadError: `days` is below 1, the log has no jobs or less than a week of them, or the
            jobs would be more than `most_jobs`.
    """
    check(days >= 1, "days", days, "1 or more")
    a_day = np.floor(np.resize(weekly_pattern(log, start_s), days) + rng.random(days))
    if a_day.sum() > most_jobs:
        many = f"{days} days like those of the log have {a_day.sum():.0f} jobs"
        raise WorkloadError(f"{many}; {most_jobs} are allowed, so days must be less")
    submit_s = _spread(rng, a_day, hourly_pattern(log, start_s))
    sizes, runs = rng.integers(len(log), size=(2, submit_s.size))
    jobs = log.take(runs)
    if not pairs:
        of_size = log.take(sizes)
        columns = {name: getattr(of_size, name) for name in ("cores", "placement", "memory_mb")}
        jobs = replace(jobs, **columns)
    return _submitted(jobs, submit_s)


def weekly_pattern(log: JobTable, start_s: float = 0.0) -> FloatArray:
    """Return the mean count of jobs of each weekday, Monday first, float64 of (7,).

    Source: the paper's section 3.2.3, (1). Every day counts whole, from that of the first job to
    that of the last.

    Args:
        log: jobs in order of submission.
        start_s: see `seasonal`.

    Raises:
        WorkloadError: the log has no jobs, or they cover less than seven days.
    """
    if not len(log):
        raise WorkloadError(f"{_counted(log)}; a weekly pattern needs a week of them")
    day = np.floor((log.submit_s + start_s) / DAY_S).astype(np.int64)
    first, covered = int(day[0]), int(day[-1] - day[0]) + 1
    if covered < WEEK_DAYS:
        raise WorkloadError(f"the log covers {covered} of 7 days; a weekly pattern needs them all")
    whole_weeks, more = divmod(covered, WEEK_DAYS)
    since_first = (np.arange(WEEK_DAYS) - first) % WEEK_DAYS
    occurred = whole_weeks + (since_first < more)
    pattern: FloatArray = np.bincount(day % WEEK_DAYS, minlength=WEEK_DAYS) / occurred
    return pattern


def hourly_pattern(log: JobTable, start_s: float = 0.0) -> FloatArray:
    """Return each hour's share of all jobs, from 0:00 on, float64 of (24,) of sum 1.

    Source: the paper's section 3.2.3, (2). Arguments are those of `weekly_pattern`.

    Raises:
        WorkloadError: the log has no jobs.
    """
    if not len(log):
        raise WorkloadError(f"{_counted(log)}; an hourly pattern needs some")
    hour = np.floor((log.submit_s + start_s) / HOUR_S).astype(np.int64) % DAY_HOURS
    pattern: FloatArray = np.bincount(hour, minlength=DAY_HOURS) / len(log)
    return pattern


def _spread(rng: np.random.Generator, a_day: FloatArray, shares: FloatArray) -> FloatArray:
    """Draw submit times, sorted, whole seconds.

    Args:
        rng: the only source of randomness.
        a_day: how many jobs each day has, whole numbers.
        shares: of each hour in the jobs of a day.
    """
    up_to = np.concatenate(([0.0], np.cumsum(shares)))
    # One draw for all hours of a day: each is rounded fairly, and their sum not at all.
    sums = np.floor(np.outer(a_day, up_to / up_to[-1]) + rng.random((a_day.size, 1)))
    an_hour = np.diff(sums).astype(np.int64).ravel()
    hours_s = np.repeat(np.arange(an_hour.size) * HOUR_S, an_hour)
    return np.sort(hours_s + rng.integers(int(HOUR_S), size=hours_s.size))


def _submitted(jobs: JobTable, submit_s: FloatArray) -> JobTable:
    """Return these jobs, submitted then, and numbered from 1."""
    return replace(jobs, job_id=np.arange(1, len(jobs) + 1, dtype=np.int64), submit_s=submit_s)


def _counted(log: JobTable) -> str:
    return f"the log has {len(log) or 'no'} job{'' if len(log) == 1 else 's'} to draw from"
