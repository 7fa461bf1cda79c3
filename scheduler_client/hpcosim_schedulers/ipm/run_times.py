"""Predicted run times of SNF-ICON, from the ratios of actual to requested run times."""

from __future__ import annotations

import math

from hpcosim_client.job import Job

SMOOTHING = 0.1
"""Weight of a new sample in the exponential moving averages."""

LEAST_SIGMA = 0.25
"""Least standard deviation of ln(run time / requested time)."""

LEAST_S = 1e-9
"""Least predicted rest of a run, in seconds."""


class RunTimes:
    """Lognormal model of run time / requested time, updated at each completion.

    x = ln(run time / requested time) has an exponential moving average mu, and sigma is the square
    root of the average of x^2 minus mu^2, at least `LEAST_SIGMA`.
    """

    def __init__(self) -> None:
        self._mu: float | None = None
        self._square = 0.0

    def observe(self, run_s: float, requested_s: float) -> None:
        """Note the run time and the requested time of a job that ended, in seconds.

        Jobs without one of them are left out.
        """
        if run_s <= 0.0 or requested_s <= 0.0:
            return
        x = math.log(run_s / requested_s)
        self._square = smoothed(None if self._mu is None else self._square, x * x, SMOOTHING)
        self._mu = smoothed(self._mu, x, SMOOTHING)

    def of_waiting(self, job: Job) -> float:
        """Return the predicted run time of a waiting job: its request times e^mu, in seconds."""
        return job.requested_s * math.exp(self._mu or 0.0)

    def left_s(self, job: Job, now_s: float) -> float:
        """Return the predicted rest of a running job, in seconds.

        It is the mean of T - e given T > e, with ln T ~ N(ln(requested time) + mu, sigma^2) and e
        the time for which the job has run. Before any completion T is the requested time, and a job
        that overruns is expected to run for its requested time once more.
        """
        ran_s = max(now_s - job.start_s, 0.0)
        requested_s = max(job.requested_s, LEAST_S)
        if self._mu is None:
            return requested_s - ran_s if ran_s < requested_s else requested_s
        sigma = max(LEAST_SIGMA, math.sqrt(max(self._square - self._mu * self._mu, 0.0)))
        return mean_excess(math.log(requested_s) + self._mu, sigma, ran_s)


def smoothed(before: float | None, sample: float, weight: float) -> float:
    """Return an exponential moving average with a new sample; None before: the sample."""
    return sample if before is None else weight * sample + (1.0 - weight) * before


def mean_excess(mu: float, sigma: float, threshold: float) -> float:
    """Return E[T - threshold | T > threshold] for ln T ~ N(mu, sigma^2), at least `LEAST_S`."""
    mean = mu + 0.5 * sigma * sigma
    if threshold > 0.0:
        z = (math.log(threshold) - mu) / sigma
        mean += _log_survival(z - sigma) - _log_survival(z)
    return max(math.exp(min(mean, 700.0)) - threshold, LEAST_S)


def _log_survival(z: float) -> float:
    """Return ln P(Z > z) of a standard normal Z."""
    if z < 30.0:
        return math.log(0.5 * math.erfc(z / math.sqrt(2.0)))
    return -0.5 * z * z - math.log(z * math.sqrt(2.0 * math.pi)) + math.log1p(-1.0 / (z * z))
