"""Sequences of short and long jobs with Bernoulli arrivals: the workload of Deep-EAS.

A. Esmaili, M. Pedram, "Energy-aware scheduling of jobs in heterogeneous cluster systems using deep
reinforcement learning" (the paper), sections II-A and III-A.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hpcosim_workloads.errors import WorkloadError, check
from hpcosim_workloads.synthetic.imitation import MAX_JOBS
from hpcosim_workloads.table import MAX_TIME_S, JobTable, job_table

FloatArray = NDArray[np.float64]
Range = tuple[int, int]

MIN_RUN_S = 1.0


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
    max_jobs: int = MAX_JOBS,
) -> JobTable:
    """Draw sequences of jobs. At each step of 1 s at most one job arrives.

    A job is short or long. Its mean run time is a whole number of seconds, and it is the requested
    time. The true run time has a normal distribution with this mean and the variance mean /
    `accuracy`. It is rounded to whole seconds, at least 1 s, because time in the paper passes in
    whole steps; the paper does not state the rounding. Both times are drawn for the fastest machine
    and multiplied by `slowdown`, because requested times hold on the slowest machine (section 5.3
    of the specification). So its clock must be the reference clock. The variance is multiplied by
    `slowdown` squared; in the paper it is a ratio of the mean, multiplied by `slowdown`.

    For each sequence, one after the other, these values are drawn for every step, with or without
    an arrival: the arrival, the class, a short mean run time, a long mean run time, the cores, and
    the deviation of the run time. So a sequence does not depend on the number of sequences.
    Workloads with the same seed and another `accuracy` differ only in their run times. With
    another `arrival_probability`, the larger workload contains the jobs of the smaller one.

    Args:
        arrival_probability: probability of an arrival at a step, 0 to 1; lambda in the paper.
        short_probability: probability of a short job, 0 to 1; beta in the paper.
        short_run_s: minimum and maximum mean run time of a short job on the fastest machine, s;
            uniform, both inclusive.
        long_run_s: minimum and maximum mean run time of a long job, as `short_run_s`.
        cores: minimum and maximum cores of a job; uniform, both inclusive.
        accuracy: accuracy of the requested times, > 0; c in the paper. None: run times equal
            requested times.
        slowdown: run time on the slowest machine divided by that on the fastest, >= 1.
        steps: steps of a sequence; jobs arrive at 0 s, 1 s, ..., `steps` - 1 s.
        sequences: number of sequences; job ids count from 1 over all of them.
        apart_s: time between the starts of two sequences, s; at least `steps` seconds.
        max_jobs: maximum of `sequences` * `steps`.

    Raises:
        WorkloadError: an argument is out of range, or there is no arrival at all.
    """
    _check_draws(
        arrival_probability, short_probability, short_run_s, long_run_s, cores, accuracy, slowdown
    )
    _check_sequences(steps, sequences, apart_s, max_jobs)
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
            f"arrival_probability is {arrival_probability}, and the workload has no jobs: there "
            f"was no arrival in {sequences} x {steps} steps; raise one of the three"
        )
    return job_table(
        job_id=np.arange(1, requested_s.size + 1, dtype=np.int64),
        submit_s=np.concatenate(submit_s),
        run_s=slowdown * _run_s(requested_s, np.concatenate(off), accuracy),
        requested_s=slowdown * requested_s,
        cores=np.concatenate(job_cores),
    )


def _run_s(mean_s: FloatArray, off: FloatArray, accuracy: float | None) -> FloatArray:
    """Return true run times on the fastest machine, s."""
    if accuracy is None:
        return mean_s
    exact_s = mean_s + off * np.sqrt(mean_s / accuracy)
    run_s: FloatArray = np.maximum(np.rint(exact_s), MIN_RUN_S)
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
    expected = f"(min, max) with 1 <= min <= max <= {MAX_TIME_S}"
    for name, run_s in (("short_run_s", short_run_s), ("long_run_s", long_run_s)):
        check(1 <= run_s[0] <= run_s[1] <= MAX_TIME_S, name, run_s, expected)
    check(1 <= cores[0] <= cores[1], "cores", cores, "(min, max) with 1 <= min <= max")
    expected = f"1 or more, and every requested time at most {MAX_TIME_S} s"
    limit = MAX_TIME_S / max(short_run_s[1], long_run_s[1])
    check(1 <= slowdown <= limit, "slowdown", slowdown, expected)


def _check_sequences(steps: int, sequences: int, apart_s: float, max_jobs: int) -> None:
    check(steps >= 1, "steps", steps, "1 or more")
    check(sequences >= 1, "sequences", sequences, "1 or more")
    expected = f"finite, and at least the {steps} steps of a sequence"
    check(steps <= apart_s < math.inf, "apart_s", apart_s, expected)
    if sequences * steps > max_jobs:
        raise WorkloadError(
            f"sequences is {sequences}; with {steps} steps each the workload may have "
            f"{sequences * steps} jobs, the maximum is {max_jobs}"
        )
    if sequences * apart_s > MAX_TIME_S:
        raise WorkloadError(
            f"apart_s is {apart_s}; {sequences} sequences end after the maximum, {MAX_TIME_S} s"
        )
