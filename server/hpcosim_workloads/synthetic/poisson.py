"""Synthetic workload with Poisson arrivals and log-uniform sizes and run times."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hpcosim_workloads.errors import check
from hpcosim_workloads.table import JobTable, job_table

MINUTE_S = 60.0


def poisson(
    rng: np.random.Generator,
    *,
    jobs: int,
    mean_interarrival_s: float,
    cores: tuple[int, int],
    run_s: tuple[float, float],
    overestimate: float,
) -> JobTable:
    """Draw a workload whose jobs arrive as a Poisson process.

    Submission times are rounded down to whole seconds. Run times are rounded to whole seconds, at
    least 1 s. A requested time is the run time times a factor uniform in [1, `overestimate`],
    rounded up to whole minutes, because users request whole minutes.

    Args:
        rng: source of all randomness.
        jobs: number of jobs, >= 1; ids count from 1.
        mean_interarrival_s: mean time between submissions, s; the first job is submitted at 0.
        cores: minimum and maximum cores of a job, log-uniform, both inclusive.
        run_s: minimum and maximum run time, s, log-uniform.
        overestimate: maximum ratio of requested time to run time before rounding, >= 1.

    Raises:
        WorkloadError: an argument is out of range.
    """
    check(jobs >= 1, "jobs", jobs, "1 or more")
    check(
        0 < mean_interarrival_s < math.inf,
        "mean_interarrival_s",
        mean_interarrival_s,
        "above 0 and finite",
    )
    check(1 <= cores[0] <= cores[1], "cores", cores, "(min, max) with 1 <= min <= max")
    expected = "(min, max) with 0 < min <= max, finite"
    check(0 < run_s[0] <= run_s[1] < math.inf, "run_s", run_s, expected)
    check(1 <= overestimate < math.inf, "overestimate", overestimate, "1 or more and finite")
    gap_s = rng.exponential(mean_interarrival_s, jobs)
    gap_s[0] = 0.0
    job_cores = _log_uniform_integers(rng, *cores, jobs)
    exact_run_s = np.exp(rng.uniform(math.log(run_s[0]), math.log(run_s[1]), jobs))
    job_run_s = np.maximum(np.rint(exact_run_s), 1.0)
    factor = rng.uniform(1.0, overestimate, jobs)
    return job_table(
        job_id=np.arange(1, jobs + 1, dtype=np.int64),
        submit_s=np.floor(np.cumsum(gap_s)),
        run_s=job_run_s,
        requested_s=np.ceil(job_run_s * factor / MINUTE_S) * MINUTE_S,
        cores=job_cores,
    )


def _log_uniform_integers(
    rng: np.random.Generator, low: int, high: int, count: int
) -> NDArray[np.int64]:
    """Draw `count` log-uniform integers in [low, high]: P(n) ~ log2((n + 1) / n).

    The floor of a log-uniform real in [low, high + 1) has this distribution. Rounding to the
    nearest integer would halve the probability of `low` and `high`.
    """
    drawn = np.floor(np.exp2(rng.uniform(math.log2(low), math.log2(high + 1), count)))
    # exp2(log2(x)) may be less than x by the last bit, and the floor would subtract a core.
    return np.clip(drawn.astype(np.int64), low, high)
