"""Naive forecasts of submissions, run times and releases, as quantiles.

A baseline that says one time or number says it at all levels.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray
from scipy.stats import poisson

from hpcosim_workloads.table import JobSpec

LEVELS = (0.1, 0.5, 0.9)
HOUR_S, WEEK_S = 3600.0, 7 * 86_400.0
MOST_WINDOWS = 2000

Floats = NDArray[np.float64]
Quantiles = Floats
"""float64[3]: at `LEVELS`."""


def constant(value: float) -> Quantiles:
    """Return the quantiles of one value."""
    return np.full(len(LEVELS), value)


class PastArrivals:
    """Submissions so far, in jobs and cores."""

    def __init__(self) -> None:
        self._times_s: list[float] = []
        self._cores: list[float] = [0.0]  # up to each submission

    def submitted(self, job: JobSpec) -> None:
        """Take a submission."""
        self._times_s.append(job.submit_s)
        self._cores.append(self._cores[-1] + job.cores)

    def counts(self, now_s: float, horizon_s: float) -> dict[str, Quantiles]:
        """Return the naive quantiles of the number of jobs, by name of the baseline."""
        times_s = np.array(self._times_s)
        means = self._naive(times_s, np.arange(len(times_s) + 1.0), now_s, horizon_s)
        found = {name: constant(mean) for name, mean in means.items()}
        found |= {
            f"{name}, Poisson": np.asarray(poisson.ppf(LEVELS, mean))
            for name, mean in means.items()
        }
        return found | self._windows(times_s, np.arange(len(times_s) + 1.0), now_s, horizon_s)

    def cores(self, now_s: float, horizon_s: float) -> dict[str, Quantiles]:
        """Return the naive quantiles of the number of cores, by name of the baseline."""
        times_s, upto = np.array(self._times_s), np.array(self._cores)
        means = self._naive(times_s, upto, now_s, horizon_s)
        found = {name: constant(mean) for name, mean in means.items()}
        return found | self._windows(times_s, upto, now_s, horizon_s)

    @staticmethod
    def _naive(times_s: Floats, upto: Floats, now_s: float, horizon_s: float) -> dict[str, float]:
        def between(from_s: float, until_s: float) -> float:
            low, high = np.searchsorted(times_s, (from_s, until_s), side="right")
            return float(upto[high] - upto[low])

        elapsed_s = max(now_s - times_s[0], 1.0)
        return {
            "constant rate": float(upto[-1]) * horizon_s / elapsed_s,
            "last week": between(now_s - WEEK_S, now_s - WEEK_S + horizon_s),
            "last hour": between(now_s - HOUR_S, now_s) * horizon_s / HOUR_S,
        }

    @staticmethod
    def _windows(
        times_s: Floats, upto: Floats, now_s: float, horizon_s: float
    ) -> dict[str, Quantiles]:
        """Return the quantiles over all windows of the past of this length."""
        starts_s = np.arange(now_s - horizon_s, times_s[0], -horizon_s)[:MOST_WINDOWS]
        low = np.searchsorted(times_s, starts_s, side="right")
        high = np.searchsorted(times_s, starts_s + horizon_s, side="right")
        return {"past windows": np.quantile(upto[high] - upto[low], LEVELS)}


class PastRunTimes:
    """Run times so far, by user."""

    def __init__(self) -> None:
        self._of_user: dict[str, list[float]] = defaultdict(list)
        self._sum_s, self._count = 0.0, 0

    def ended(self, job: JobSpec) -> None:
        """Take a job that has ended."""
        self._of_user[job.user].append(job.run_s)
        self._sum_s += job.run_s
        self._count += 1

    def run_times(self, job: JobSpec) -> dict[str, Quantiles]:
        """Return the naive quantiles of a run time, s, by name of the baseline.

        A user without history has the requested time, or else the mean of all users.
        """
        limit_s = job.requested_s
        else_s = limit_s if math.isfinite(limit_s) else self._sum_s / max(self._count, 1)
        own = self._of_user[job.user]
        found = {} if math.isinf(limit_s) else {"requested time": constant(limit_s)}
        last_s = own[-1] if own else else_s
        two_s = (own[-1] + own[-2]) / 2 if len(own) > 1 else else_s
        mean_s = sum(own) / len(own) if own else else_s
        user = np.quantile(own[-100:], LEVELS) if own else constant(else_s)
        found["last of user"] = constant(last_s)
        found["last two of user"] = constant(two_s)  # Tsafrir et al. 2007
        found["mean of user"] = constant(mean_s)
        found["quantiles of user"] = user
        return {name: np.minimum(values, limit_s) for name, values in found.items()}
