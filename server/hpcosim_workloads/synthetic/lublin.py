"""The Lublin-Feitelson model of rigid jobs on a parallel supercomputer.

U. Lublin, D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics
of rigid jobs", J. Parallel Distrib. Comput. 63(11), 2003. The model has three parts: job sizes, run
times that depend on the size, and arrivals with a daily cycle. This is the variant without a
distinction of batch and interactive jobs. Where the paper leaves a choice open, this module follows
the authors' program lublin99.c.

An argument out of range is a `WorkloadError`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hpcosim_workloads.errors import check
from hpcosim_workloads.table import JobTable, job_table

FloatArray = NDArray[np.float64]

DAY_S = 86_400.0
BUCKETS = 48
BUCKET_S = DAY_S / BUCKETS
SMALLEST_PARALLEL = 2


# The model's constants, by part of the paper; values of lublin99.c for all jobs together.

# Job sizes
SERIAL_PROBABILITY = 0.244  # share of jobs of one processor
# Share, of all jobs, of parallel ones whose log2 size is rounded to an integer.
POWER_OF_TWO_PROBABILITY = 0.576
U_LOW = 0.8  # ULow: minimum log2 size of a parallel job; below 1, so that size 2 is not too rare
U_MED_BELOW_HIGH = 2.5  # UHi - UMed: distance of the change of density from the maximum
U_PROB = 0.86  # Uprob: share of parallel log2 sizes drawn from [ULow, UMed]

# Run times: gammas of the natural log of seconds
A1, B1 = 4.2, 0.94  # shape and scale of short jobs
A2, B2 = 312.0, 0.03  # shape and scale of long jobs
PA, PB = -0.0054, 0.78  # slope (per processor) and intercept of the probability of short jobs
MAX_LOG_RUN = 12.0  # greater values are drawn again; e^12 s is about two days

# Arrivals
A_ARR, B_ARR = 10.2303, 0.4871  # shape, scale of the natural log of a gap in the rush hours
ARAR = 1.0225  # arrive-rush-to-all ratio: factor from `A_ARR` to the shape of the whole day
MAX_LOG_GAP = 13.0  # greater values are drawn again; e^13 s is about five days
# Daily cycle: shape and scale (in buckets) of the gamma density of arrivals over the day.
A_NUM, B_NUM = 8.1737, 3.9631
FIRST_BUCKET = 11  # number, from 1 at midnight, of the half hour in which the daily cycle starts


MINUTE_S = 60.0


def lublin(rng: np.random.Generator, *, jobs: int, processors: int) -> JobTable:
    """Draw a workload of the Lublin-Feitelson model.

    Time 0 is midnight, and the first job arrives one gap later. Submission and run times are
    rounded down to whole seconds, as in lublin99.c. The model has no requested times, so
    `requested_s` equals `run_s`.

    Args:
        jobs: number of jobs, >= 1; ids count from 1.
        processors: size of the machine and maximum cores of a job, >= 2.
    """
    check(jobs >= 1, "jobs", jobs, "1 or more")
    expected = "2 or more, because the model has parallel jobs"
    check(processors >= SMALLEST_PARALLEL, "processors", processors, expected)
    cores = _sizes(rng, jobs, processors)
    run_s = _run_times_s(rng, cores)
    return job_table(
        job_id=np.arange(1, jobs + 1, dtype=np.int64),
        submit_s=_arrivals_s(rng, jobs),
        run_s=run_s,
        requested_s=run_s.copy(),
        cores=cores,
    )


def _sizes(rng: np.random.Generator, jobs: int, processors: int) -> NDArray[np.int64]:
    """Draw the processors of each job, int64[jobs] in [1, processors].

    Paper, job sizes: one draw decides whether the size is 1, a power of two or any. The log2 of
    the size of a parallel job is two-stage uniform.
    """
    kind = rng.random(jobs)
    serial = kind < SERIAL_PROBABILITY
    rounded = kind < SERIAL_PROBABILITY + POWER_OF_TWO_PROBABILITY

    u_med, u_high = _upper_log2_sizes(processors)
    first_stage = rng.random(jobs) < U_PROB
    log2_size = rng.uniform(
        np.where(first_stage, U_LOW, u_med), np.where(first_stage, u_med, u_high)
    )
    # On 100 processors 2^6.64 would be rounded to 128, but the largest power of two is 64.
    powers = np.clip(np.floor(log2_size + 0.5), 1, processors.bit_length() - 1)
    size = np.floor(np.exp2(np.where(rounded, powers, log2_size)) + 0.5).astype(np.int64)
    return np.where(serial, 1, np.clip(size, SMALLEST_PARALLEL, processors))


def _upper_log2_sizes(processors: int) -> tuple[float, float]:
    """Return UMed and UHi of a machine: UHi is the log2 of its size, UMed is UHi - 2.5.

    Below 16 processors this UMed is close to ULow or below it. There UMed is the minimum of 1.5,
    which the authors advise for 8 processors, and the mean of ULow and UHi.
    """
    u_high = math.log2(processors)
    minimum = min(1.5, (U_LOW + u_high) / 2)
    return max(u_high - U_MED_BELOW_HIGH, minimum), u_high


def _run_times_s(rng: np.random.Generator, cores: NDArray[np.int64]) -> FloatArray:
    """Draw the run time of each job, s, whole numbers >= 1, float64[jobs].

    Paper, run times: the natural log is hyper-gamma, gamma(a1, b1) with probability
    p = pa * size + pb, clipped to [0, 1], and gamma(a2, b2) otherwise.
    """
    p = np.clip(PA * cores + PB, 0.0, 1.0)

    def hyper_gamma(which: NDArray[np.intp]) -> FloatArray:
        short = rng.random(which.size) < p[which]
        shape = np.where(short, A1, A2)
        return rng.gamma(shape, np.where(short, B1, B2))

    return np.floor(np.exp(_drawn_within(MAX_LOG_RUN, len(cores), hyper_gamma)))


def _arrivals_s(rng: np.random.Generator, jobs: int) -> FloatArray:
    """Draw submission times, whole seconds after midnight, never decreasing, float64[jobs].

    Paper, arrivals: the natural log of a gap is gamma(a_arr * arar, b_arr). Gaps are measured by a
    clock whose time in each half hour is proportional to the arrivals of that half hour. The
    inverse of the cumulative daily cycle converts this clock to the time of day.

    lublin99.c rounds its running time down at every job, which shifts the cycle by 0.5 s per job
    (1.4 hours in 10,000 jobs). Here each time is rounded on its own, without a shift.
    """

    def log_gap(which: NDArray[np.intp]) -> FloatArray:
        return rng.gamma(A_ARR * ARAR, B_ARR, which.size)

    gap_s = np.exp(_drawn_within(MAX_LOG_GAP, jobs, log_gap))
    days, rest_s = np.divmod(np.cumsum(gap_s), DAY_S)
    clock_s = np.concatenate(([0.0], np.cumsum(_daily_cycle()))) * BUCKET_S
    time_of_day_s: FloatArray = np.interp(rest_s, clock_s, np.arange(BUCKETS + 1) * BUCKET_S)
    return np.floor(days * DAY_S + time_of_day_s)


def _daily_cycle() -> FloatArray:
    """Return the relative arrivals of each half hour from midnight, float64[48], of mean 1.

    Paper, daily cycle: gamma(a_num, b_num) over bucket numbers i = 11..58; the share of a bucket is
    the probability of [i - 1/2, i + 1/2]. Numbers count from 1, and those above 48 are in the early
    morning, so the cycle starts at 5:00. The density is integrated without normalisation, because
    only ratios matter, by Gauss-Legendre quadrature, whose error is below rounding here.
    """
    number = np.arange(FIRST_BUCKET, FIRST_BUCKET + BUCKETS)
    nodes, node_weights = np.polynomial.legendre.leggauss(8)
    x = number[:, np.newaxis] + nodes / 2
    log_density = (A_NUM - 1) * np.log(x) - x / B_NUM
    share = np.exp(log_density) @ node_weights
    return np.roll(share / share.mean(), FIRST_BUCKET - 1)


def _drawn_within(
    limit: float, count: int, draw: Callable[[NDArray[np.intp]], FloatArray]
) -> FloatArray:
    """Draw `count` values <= `limit`: greater values are drawn again."""
    values = draw(np.arange(count))
    above: NDArray[np.intp] = np.flatnonzero(values > limit)
    while above.size:
        values[above] = draw(above)
        above = above[values[above] > limit]
    return values


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
        jobs: number of jobs, >= 1; ids count from 1.
        mean_interarrival_s: mean time between submissions, s; the first job is submitted at 0.
        cores: minimum and maximum cores of a job, log-uniform, both inclusive.
        run_s: minimum and maximum run time, s, log-uniform.
        overestimate: maximum ratio of requested time to run time before rounding, >= 1.
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
