"""The Lublin-Feitelson model of the jobs of a parallel supercomputer.

U. Lublin, D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics
of rigid jobs", J. Parallel Distrib. Comput. 63(11), 2003. The model has three parts: job sizes, run
times that depend on the size, and arrivals with a daily cycle. This is the variant for all jobs
together, without a distinction of batch and interactive jobs; where the paper leaves a choice open,
it is made as the authors' published program lublin99.c makes it.
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
U_LOW = 0.8  # ULow: least log2 size of a parallel job; below 1, so that 2 gets its due
U_MED_BELOW_HIGH = 2.5  # UHi - UMed: how far the change of density is below the top
U_PROB = 0.86  # Uprob: share of parallel log2 sizes drawn from [ULow, UMed]

# Run times: gammas of the natural log of seconds
A1, B1 = 4.2, 0.94  # shape and scale of short jobs
A2, B2 = 312.0, 0.03  # shape and scale of long jobs
PA, PB = -0.0054, 0.78  # slope, per processor of the job, and intercept of the share of short jobs
GREATEST_LOG_RUN = 12.0  # logs above are drawn again; e^12 s is not quite two days

# Arrivals
A_ARR, B_ARR = 10.2303, 0.4871  # shape, scale of the natural log of a gap in the rush hours
ARAR = 1.0225  # arrive-rush-to-all ratio: what turns `A_ARR` into that of the whole day
GREATEST_LOG_GAP = 13.0  # logs above are drawn again; e^13 s is five days
# Daily cycle: shape of the gamma density of jobs over buckets of the day, and scale in buckets.
A_NUM, B_NUM = 8.1737, 3.9631
FIRST_BUCKET = 11  # number, from 1 at midnight, of the half hour in which the daily cycle starts


def lublin(rng: np.random.Generator, *, jobs: int, processors: int) -> JobTable:
    """Draw a workload of the Lublin-Feitelson model.

    Time 0 is a midnight, and the first job comes one gap after it. Submit and run times are cut to
    whole seconds, as in lublin99.c. The model has no requested times: `requested_s` is `run_s`.

    Args:
        rng: the only source of randomness.
        jobs: how many jobs, with ids from 1.
        processors: size of the machine, and the most cores a job can ask for; 2 or more.

    Raises:
        WorkloadError: `jobs` or `processors` is too small.
    """
    check(jobs >= 1, "jobs", jobs, "1 or more")
    expected = "2 or more, for the model has parallel jobs"
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
    """Draw the processors of each job, int64 of [1, processors].

    Paper, job sizes: one draw says whether a job is serial, of a power of two, or any; the log2 of
    a parallel job's size is two-stage uniform.
    """
    kind = rng.random(jobs)
    serial = kind < SERIAL_PROBABILITY
    rounded = kind < SERIAL_PROBABILITY + POWER_OF_TWO_PROBABILITY

    u_med, u_high = _upper_log2_sizes(processors)
    first_stage = rng.random(jobs) < U_PROB
    log2_size = rng.uniform(
        np.where(first_stage, U_LOW, u_med), np.where(first_stage, u_med, u_high)
    )
    # On a machine of 100, 2^6.64 would be rounded up to 128: the greatest that fits is 64.
    powers = np.clip(np.floor(log2_size + 0.5), 1, processors.bit_length() - 1)
    size = np.floor(np.exp2(np.where(rounded, powers, log2_size)) + 0.5).astype(np.int64)
    return np.where(serial, 1, np.clip(size, SMALLEST_PARALLEL, processors))


def _upper_log2_sizes(processors: int) -> tuple[float, float]:
    """Return UMed and UHi of a machine: UHi is its log2 size, UMed is UHi - 2.5.

    Below 16 processors that would come close to ULow and pass it. There UMed is 1.5, what the
    authors advise for 8 processors, or half way from ULow to UHi if that is less.
    """
    u_high = math.log2(processors)
    least = min(1.5, (U_LOW + u_high) / 2)
    return max(u_high - U_MED_BELOW_HIGH, least), u_high


def _run_times_s(rng: np.random.Generator, cores: NDArray[np.int64]) -> FloatArray:
    """Draw the run time of each job, whole seconds of 1 or more, float64 of the length of `cores`.

    Paper, run times: the natural log is hyper-gamma, of gamma(a1, b1) with probability
    p = pa * size + pb and of gamma(a2, b2) otherwise, p kept in [0, 1].
    """
    p = np.clip(PA * cores + PB, 0.0, 1.0)

    def hyper_gamma(which: NDArray[np.intp]) -> FloatArray:
        short = rng.random(which.size) < p[which]
        shape = np.where(short, A1, A2)
        return rng.gamma(shape, np.where(short, B1, B2))

    return np.floor(np.exp(_drawn_within(GREATEST_LOG_RUN, len(cores), hyper_gamma)))


def _arrivals_s(rng: np.random.Generator, jobs: int) -> FloatArray:
    """Draw submit times, whole seconds after a midnight, never decreasing, float64 of (jobs,).

    Paper, arrivals: the natural log of a gap is gamma(a_arr * arar, b_arr). Such a gap is of a
    clock that runs through a day in a day, but through each half hour in proportion to the jobs
    that come in it; inverting the clock's cumulated daily cycle gives the time of the job.

    lublin99.c cuts its running time at every job, which slips the cycle by half a second a job (by
    1.4 hours in 10,000 jobs). Here each time is cut on its own, and the cycle stays with the day.
    """

    def log_gap(which: NDArray[np.intp]) -> FloatArray:
        return rng.gamma(A_ARR * ARAR, B_ARR, which.size)

    gap_s = np.exp(_drawn_within(GREATEST_LOG_GAP, jobs, log_gap))
    days, rest_s = np.divmod(np.cumsum(gap_s), DAY_S)
    clock_s = np.concatenate(([0.0], np.cumsum(_daily_cycle()))) * BUCKET_S
    time_of_day_s: FloatArray = np.interp(rest_s, clock_s, np.arange(BUCKETS + 1) * BUCKET_S)
    return np.floor(days * DAY_S + time_of_day_s)


def _daily_cycle() -> FloatArray:
    """Return the jobs expected in each half hour from midnight, float64 of (48,), of mean 1.

    Paper, daily cycle: gamma(a_num, b_num) over bucket numbers i = 11..58, a bucket's share being
    its probability of [i - 1/2, i + 1/2]; numbers count from 1, and those past 48 are of the early
    morning. So the cycle starts with the half hour that begins at 5:00. As only ratios count, the
    density is integrated unnormalised, by Gauss-Legendre quadrature, exact here to rounding.
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
    """Draw `count` values, those above `limit` again until none is.

    Args:
        limit: the greatest value to keep.
        count: how many values.
        draw: from the indices of the values wanted, an array of as many values.
    """
    values = draw(np.arange(count))
    above: NDArray[np.intp] = np.flatnonzero(values > limit)
    while above.size:
        values[above] = draw(above)
        above = above[values[above] > limit]
    return values
