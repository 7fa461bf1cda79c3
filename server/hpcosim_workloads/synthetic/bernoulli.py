"""Sequences of short and long jobs that come as a Bernoulli process: the jobs of Deep-EAS.

A. Esmaili, M. Pedram, "Energy-aware scheduling of jobs in heterogeneous cluster systems using deep
reinforcement learning" (the paper), sections II-A and III-A.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hpcosim_workloads.errors import WorkloadError, check
from hpcosim_workloads.synthetic.imitation import MOST_JOBS
from hpcosim_workloads.table import LATEST_S, JobTable, job_table

FloatArray = NDArray[np.float64]
Range = tuple[int, int]

LEAST_RUN_S = 1.0


def bernoulli(
    rng: np.random.Generator,
    *,
    arrival_probability: float,
    short_probability: float,
    short_run_s: Range,
    long_run_s: Range,
    cores: Range,
    accuracy: float | None,
    slowdown: float,
    steps: int,
    sequences: int,
    apart_s: float,
    most_jobs: int = MOST_JOBS,
) -> JobTable:
    """Draw sequences of jobs, in each of which a job comes, or none, at every step of 1 s.

    A job is short or long. Its mean run time is a whole number of seconds, and what the scheduler
    is told (the requested time). Its true run time is drawn from a normal distribution of that
    mean and the variance mean / `accuracy`, and rounded to whole seconds, 1 s at least, of which
    the paper says nothing: its time passes in whole steps. Both are drawn for the fastest machine,
    and the workload has them for the slowest, `slowdown` times as long: requested times hold there
    (section 5.3 of the specification), so its clock must be the one of reference. The variance
    grows as the square of that, where the paper's, a ratio of the mean, grows as the multiple.

    The sequences are drawn one after the other. For each are drawn, of every step whether a job
    comes at it or not: whether one comes; whether it is short; a short mean run time; a long one;
    the cores; and how far the run time is off, in standard deviations. So a sequence is the same
    however many follow it, and workloads of one seed that differ in `accuracy` alone have the
    same jobs but for their run times, and of two that differ in `arrival_probability` alone the
    one with more jobs has all those of the other.

    Args:
        rng: the only source of randomness.
        arrival_probability: that a job comes at a step, 0 to 1; the paper's lambda.
        short_probability: that a job is a short one, 0 to 1; the paper's beta.
        short_run_s: least and greatest mean run time of a short job on the fastest machine, both
            possible, uniform.
        long_run_s: the same of a long job.
        cores: least and most cores of a job, both possible, uniform.
        accuracy: of what the scheduler is told, above 0; the paper's c. None: perfect, every job
            runs as long as it is told.
        slowdown: how many times as long a job takes on the slowest machine as on the fastest.
        steps: of a sequence; a job may come at 0 s, 1 s and so on, up to `steps` - 1 s.
        sequences: how many; job ids count from 1 through all of them.
        apart_s: a sequence begins so long after the one before, `steps` seconds at the least.
        most_jobs: workloads that might have more are refused.

    Raises:
        WorkloadError: an argument is out of its range, the jobs might be more than `most_jobs`, or
            not one came.
    """
    _check_draws(
        arrival_probability, short_probability, short_run_s, long_run_s, cores, accuracy, slowdown
    )
    _check_sequences(steps, sequences, apart_s, most_jobs)
    submit_s, mean_s, job_cores, off = [], [], [], []
    for number in range(sequences):
        comes = rng.random(steps) < arrival_probability
        short = rng.random(steps) < short_probability
        short_s = rng.integers(*short_run_s, steps, endpoint=True)
        long_s = rng.integers(*long_run_s, steps, endpoint=True)
        job_cores.append(rng.integers(*cores, steps, endpoint=True)[comes])
        off.append(rng.standard_normal(steps)[comes])
        mean_s.append(np.where(short, short_s, long_s)[comes].astype(np.float64))
        submit_s.append(number * apart_s + np.flatnonzero(comes))
    requested_s = np.concatenate(mean_s)
    if not requested_s.size:
        raise WorkloadError(
            f"arrival_probability is {arrival_probability}, and the workload has no jobs: in "
            f"{sequences} x {steps} steps none came"
        )
    return job_table(
        job_id=np.arange(1, requested_s.size + 1, dtype=np.int64),
        submit_s=np.concatenate(submit_s),
        run_s=slowdown * _run_s(requested_s, np.concatenate(off), accuracy),
        requested_s=slowdown * requested_s,
        cores=np.concatenate(job_cores),
    )


def _run_s(mean_s: FloatArray, off: FloatArray, accuracy: float | None) -> FloatArray:
    """Return true run times that are so many standard deviations off their mean."""
    if accuracy is None:
        return mean_s
    exact_s = mean_s + off * np.sqrt(mean_s / accuracy)
    run_s: FloatArray = np.maximum(np.rint(exact_s), LEAST_RUN_S)
    return run_s


def _check_draws(
    arrival_probability: float,
    short_probability: float,
    short_run_s: Range,
    long_run_s: Range,
    cores: Range,
    accuracy: float | None,
    slowdown: float,
) -> None:
    chances = {"arrival_probability": arrival_probability, "short_probability": short_probability}
    for name, chance in chances.items():
        check(0 <= chance <= 1, name, chance, "from 0 to 1")
    right = accuracy is None or 0 < accuracy < math.inf
    check(right, "accuracy", accuracy, "above 0 and finite, or null: perfect")
    expected = f"(least, greatest), with 1 <= least <= greatest <= {LATEST_S}"
    for name, run_s in (("short_run_s", short_run_s), ("long_run_s", long_run_s)):
        check(1 <= run_s[0] <= run_s[1] <= LATEST_S, name, run_s, expected)
    check(1 <= cores[0] <= cores[1], "cores", cores, "(least, most), with 1 <= least <= most")
    expected = f"1 or more, and so small that no requested time is above {LATEST_S} s"
    most = LATEST_S / max(short_run_s[1], long_run_s[1])
    check(1 <= slowdown <= most, "slowdown", slowdown, expected)


def _check_sequences(steps: int, sequences: int, apart_s: float, most_jobs: int) -> None:
    check(steps >= 1, "steps", steps, "1 or more")
    check(sequences >= 1, "sequences", sequences, "1 or more")
    expected = f"finite, and at least the {steps} steps of a sequence"
    check(steps <= apart_s < math.inf, "apart_s", apart_s, expected)
    if sequences * steps > most_jobs:
        raise WorkloadError(
            f"sequences is {sequences}, which with {steps} steps each may have "
            f"{sequences * steps} jobs; {most_jobs} are allowed, so it must be less"
        )
    if sequences * apart_s > LATEST_S:
        raise WorkloadError(
            f"apart_s is {apart_s}; {sequences} sequences so far apart end after the latest time "
            f"there is, {LATEST_S} s"
        )
