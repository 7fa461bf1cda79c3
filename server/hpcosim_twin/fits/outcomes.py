"""How jobs end: failures, requeues, and users who give up while their jobs wait."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from hpcosim_client.arrays import Bools, Floats
from hpcosim_twin.cluster.recorded import RecordedJob
from hpcosim_twin.fits.finding import Finding, share

FAILED = frozenset(("FAILED", "OUT_OF_MEMORY", "BOOT_FAIL", "NODE_FAIL"))
LEAST = 10
"""Number of cancelled jobs from which on their hazard is fitted."""
HOUR_S = 3600.0


def outcomes(jobs: Sequence[RecordedJob]) -> Iterator[Finding]:
    """Yield the shares of ways in which started jobs end, and of those that run again."""
    ended = [job for job in jobs if job.runs and math.isfinite(job.over_s)]
    states = Counter(job.state for job in ended)
    failed = sum(states[state] for state in FAILED)
    yield share("jobs that fail", failed, len(ended))
    yield share("jobs that are ended at their limit", states["TIMEOUT"], len(ended))
    yield share("running jobs that are cancelled", states["CANCELLED"], len(ended))
    runs = sum(len(job.runs) for job in ended)
    yield share("runs that are requeued", runs - len(ended), runs)


def giving_up(jobs: Sequence[RecordedJob], until_s: float) -> Iterator[Finding]:
    """Yield the hazard with which waiting jobs are cancelled, 1/h.

    The time until a cancellation has a Weibull distribution, of which starts hide the rest. Its
    shape is 1, a constant hazard, unless the likelihood of the last fifth of the submissions is
    higher with the fitted one.
    """
    waited_s, cancelled = _waits(jobs, until_s)
    name = "waiting jobs that are cancelled"
    count = int(cancelled.sum())
    if count < LEAST:
        reason = f"only {count} jobs were cancelled while they waited; {LEAST} are needed"
        if not count:
            reason = "no job was cancelled while it waited, or `sacct` was asked for started jobs"
        yield Finding(name=name, value=0.0, unit="1/h", observations=count, reason=reason)
        return
    from scipy.stats import chi2

    exposure_h = float(waited_s.sum()) / HOUR_S
    low, high = (
        float(chi2.ppf(level, 2 * (count + later))) / 2 / exposure_h
        for level, later in ((0.025, 0), (0.975, 1))
    )
    rate = count / exposure_h
    yield Finding(name=name, value=rate, unit="1/h", low=low, high=high, observations=count)
    yield _shape(waited_s, cancelled)


def _shape(waited_s: Floats, cancelled: Bools) -> Finding:
    from scipy.optimize import minimize

    name = "shape of the Weibull hazard of giving up"
    cut = round(0.8 * len(waited_s))
    if min(cancelled[:cut].sum(), cancelled[cut:].sum()) < LEAST:
        return Finding(name=name, value=1.0, reason="too few cancelled jobs to fit and to check it")

    def loss(shape_scale: Floats, rows: slice) -> float:
        shape, scale = np.exp(np.clip(shape_scale, -20.0, 30.0))
        times = waited_s[rows] / scale
        log_hazard = np.log(shape / scale) + (shape - 1.0) * np.log(times)
        return float((times**shape).sum() - log_hazard[cancelled[rows]].sum())

    first, last = slice(0, cut), slice(cut, None)
    rate = cancelled[first].sum() / waited_s[first].sum()
    constant = np.array([0.0, -math.log(rate)])
    found = minimize(loss, constant, args=(first,), method="Nelder-Mead")
    if loss(found.x, last) >= loss(constant, last):
        reason = "a constant hazard is as likely in the last fifth of the submissions"
        return Finding(name=name, value=1.0, observations=len(waited_s), reason=reason)
    return Finding(name=name, value=float(np.exp(found.x[0])), observations=len(waited_s))


def _waits(jobs: Sequence[RecordedJob], until_s: float) -> tuple[Floats, Bools]:
    """Return for how long jobs waited, s, and whether they were cancelled then."""
    waited_s, cancelled = [], []
    for job in jobs:
        gone_s = min(job.start_s, job.over_s, until_s)
        if gone_s > job.submit_s:
            waited_s.append(gone_s - job.submit_s)
            cancelled.append(not job.runs and job.over_s <= until_s and job.state == "CANCELLED")
    return np.array(waited_s), np.array(cancelled, dtype=np.bool_)
