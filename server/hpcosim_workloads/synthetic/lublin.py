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
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.table import JobTable, job_table

FloatArray = NDArray[np.float64]

DAY_S = 86_400.0
BUCKETS = 48
BUCKET_S = DAY_S / BUCKETS
SMALLEST_PARALLEL = 2


@dataclass(frozen=True, slots=True)
class LublinParameters:
    """The model's constants, by part of the paper; values of lublin99.c for all jobs together.

    Attributes:
        serial_probability: job sizes: the share of jobs of one processor.
        power_of_two_probability: job sizes: the share, of all jobs, of parallel ones whose log2
            size is rounded to an integer.
        u_low: job sizes, ULow: least log2 size of a parallel job; below 1, so that 2 gets its due.
        u_med_below_high: job sizes, UHi - UMed: how far the change of density is below the top.
        u_prob: job sizes, Uprob: the share of parallel log2 sizes drawn from [ULow, UMed].
        a1: run times: shape of the gamma of short jobs, of the natural log of seconds.
        b1: run times: scale of the same.
        a2: run times: shape of the gamma of long jobs.
        b2: run times: scale of the same.
        pa: run times: slope of the share of short jobs, per processor of the job.
        pb: run times: the same share's intercept.
        greatest_log_run: run times: logs above are drawn again; e^12 s is not quite two days.
        a_arr: arrivals: shape of the gamma of the natural log of a gap in the rush hours.
        b_arr: arrivals: scale of the same.
        arar: arrivals, arrive-rush-to-all ratio: what turns `a_arr` into that of the whole day.
        a_num: arrivals, daily cycle: shape of the gamma density of jobs over buckets of the day.
        b_num: arrivals, daily cycle: scale of the same, in buckets.
        greatest_log_gap: arrivals: logs above are drawn again; e^13 s is five days.
        first_bucket: arrivals, daily cycle: number, counting from 1 at midnight, of the half hour
            in which the cycle starts.
    """

    serial_probability: float = 0.244
    power_of_two_probability: float = 0.576
    u_low: float = 0.8
    u_med_below_high: float = 2.5
    u_prob: float = 0.86
    a1: float = 4.2
    b1: float = 0.94
    a2: float = 312.0
    b2: float = 0.03
    pa: float = -0.0054
    pb: float = 0.78
    greatest_log_run: float = 12.0
    a_arr: float = 10.2303
    b_arr: float = 0.4871
    arar: float = 1.0225
    a_num: float = 8.1737
    b_num: float = 3.9631
    greatest_log_gap: float = 13.0
    first_bucket: int = 11


PARAMETERS = LublinParameters()


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
    if jobs < 1:
        raise WorkloadError(f"jobs is {jobs}; it must be 1 or more")
    if processors < SMALLEST_PARALLEL:
        raise WorkloadError(
            f"processors is {processors}; it must be 2 or more, for the model has parallel jobs"
        )
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
    model = PARAMETERS
    kind = rng.random(jobs)
    serial = kind < model.serial_probability
    rounded = kind < model.serial_probability + model.power_of_two_probability

    u_med, u_high = _upper_log2_sizes(processors)
    first_stage = rng.random(jobs) < model.u_prob
    log2_size = rng.uniform(
        np.where(first_stage, model.u_low, u_med), np.where(first_stage, u_med, u_high)
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
    model = PARAMETERS
    u_high = math.log2(processors)
    least = min(1.5, (model.u_low + u_high) / 2)
    return max(u_high - model.u_med_below_high, least), u_high


def _run_times_s(rng: np.random.Generator, cores: NDArray[np.int64]) -> FloatArray:
    """Draw the run time of each job, whole seconds of 1 or more, float64 of the length of `cores`.

    Paper, run times: the natural log is hyper-gamma, of gamma(a1, b1) with probability
    p = pa * size + pb and of gamma(a2, b2) otherwise, p kept in [0, 1].
    """
    model = PARAMETERS
    p = np.clip(model.pa * cores + model.pb, 0.0, 1.0)

    def hyper_gamma(which: NDArray[np.intp]) -> FloatArray:
        short = rng.random(which.size) < p[which]
        shape = np.where(short, model.a1, model.a2)
        return rng.gamma(shape, np.where(short, model.b1, model.b2))

    return np.floor(np.exp(_drawn_within(model.greatest_log_run, len(cores), hyper_gamma)))


def _arrivals_s(rng: np.random.Generator, jobs: int) -> FloatArray:
    """Draw submit times, whole seconds after a midnight, never decreasing, float64 of (jobs,).

    Paper, arrivals: the natural log of a gap is gamma(a_arr * arar, b_arr). Such a gap is of a
    clock that runs through a day in a day, but through each half hour in proportion to the jobs
    that come in it; inverting the clock's cumulated daily cycle gives the time of the job.

    lublin99.c cuts its running time at every job, which slips the cycle by half a second a job (by
    1.4 hours in 10,000 jobs). Here each time is cut on its own, and the cycle stays with the day.
    """
    model = PARAMETERS

    def log_gap(which: NDArray[np.intp]) -> FloatArray:
        return rng.gamma(model.a_arr * model.arar, model.b_arr, which.size)

    gap_s = np.exp(_drawn_within(model.greatest_log_gap, jobs, log_gap))
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
    model = PARAMETERS
    number = np.arange(model.first_bucket, model.first_bucket + BUCKETS)
    nodes, node_weights = np.polynomial.legendre.leggauss(8)
    x = number[:, np.newaxis] + nodes / 2
    log_density = (model.a_num - 1) * np.log(x) - x / model.b_num
    share = np.exp(log_density) @ node_weights
    return np.roll(share / share.mean(), model.first_bucket - 1)


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
