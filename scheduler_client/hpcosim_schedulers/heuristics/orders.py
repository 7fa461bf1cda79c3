"""Orders of the queue: jobs in ascending order of a key, ties in submission order.

Symbols: r requested time (s), n cores, s submission time (s), w wait so far (s).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from hpcosim_client.job import Job

Key = Callable[[Job], float]
FixedKey = Callable[[Job], float | tuple[float, ...]]
KeyNow = Callable[[Job, float], float]

# Lower bound of r and s in F1 to F4, which take logarithms (as in RLScheduler, Zhang et al. 2020).
LEAST = 0.1


def sjf(job: Job) -> float:
    """Shortest requested time first."""
    return job.requested_s


def ljf(job: Job) -> float:
    """Longest requested time first."""
    return -job.requested_s


def smallest(job: Job) -> float:
    """Fewest cores first."""
    return job.cores


def saf(job: Job) -> float:
    """Smallest area first: least r n."""
    return job.requested_s * job.cores


def snf(job: Job) -> tuple[float, ...]:
    """Smallest need first: fewest cores, then shortest requested time (Pulungan et al. 2026)."""
    return job.cores, job.requested_s


def f1(job: Job) -> float:
    """log10(r) n + 870 log10(s) (Carastan-Santos, de Camargo 2017, table 3).

    Like F2 to F4 it depends on the origin of simulated time, because it uses s itself.
    """
    return math.log10(_r(job)) * job.cores + 870 * math.log10(_s(job))


def f2(job: Job) -> float:
    """sqrt(r) n + 25600 log10(s) (Carastan-Santos, de Camargo 2017, table 3)."""
    return math.sqrt(_r(job)) * job.cores + 25600 * math.log10(_s(job))


def f3(job: Job) -> float:
    """R n + 6860000 log10(s) (Carastan-Santos, de Camargo 2017, table 3)."""
    return _r(job) * job.cores + 6860000 * math.log10(_s(job))


def f4(job: Job) -> float:
    """R sqrt(n) + 530000 log10(s) (Carastan-Santos, de Camargo 2017, table 3)."""
    return _r(job) * math.sqrt(job.cores) + 530000 * math.log10(_s(job))


def wfp3(job: Job, now_s: float) -> float:
    """-(w / r)^3 n (Tang et al. 2009), with the true wait.

    The program of RLScheduler has the wrong sign of the wait; this function has the right one.
    """
    return -(((now_s - job.submit_s) / _r(job)) ** 3) * job.cores


def unicep(job: Job, now_s: float) -> float:
    """-w / (log2(n) r) (Tang et al. 2009), with the true wait.

    log2(1) is 0, so a job of one core that has waited has the limit of the formula, minus infinity;
    before it has waited, 0.
    """
    wait_s = now_s - job.submit_s
    if wait_s == 0:
        return 0.0
    if job.cores == 1:
        return -math.inf
    return -wait_s / (math.log2(job.cores) * _r(job))


def lxf(job: Job, now_s: float) -> float:
    """Largest expansion factor first: -(w + r) / r."""
    return -(now_s - job.submit_s) / _r(job)


def _r(job: Job) -> float:
    return job.requested_s if job.requested_s > 0 else LEAST


def _s(job: Job) -> float:
    return job.submit_s if job.submit_s > 0 else LEAST


FIXED: Mapping[str, FixedKey] = {
    key.__name__: key for key in (sjf, ljf, smallest, saf, snf, f1, f2, f3, f4)
}
"""Orders with a key that does not depend on the time."""

CHANGING: Mapping[str, KeyNow] = {key.__name__: key for key in (wfp3, unicep, lxf)}
"""Orders with a key that depends on the time."""
