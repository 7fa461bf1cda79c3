"""The rhythm of a week: how busy each hour is, compared with the mean."""

from __future__ import annotations

import math

import numpy as np

from hpcosim_client.arrays import Floats

HOUR_S = 3600.0
DAYS, HOURS = 7, 24
BINS = DAYS * HOURS

FORGETTING_S = 10 * BINS * HOUR_S
"""Time after which an old observation counts 1/e, s."""
PRIOR = 10.0
"""Number of arrivals that count as much as what is known from coarser bins."""


class WeekRhythm:
    """The factor of each of the 168 hours of a week, relative to the mean.

    The factor of an hour is (observed + prior) / (expected + prior): the number of observed
    arrivals, and that of those expected with a factor of 1. An hour of the week is shrunk towards
    the hour of the day x the day of the week, and these towards 1 (gamma priors). Days begin at
    multiples of 86400 s of the caller's clock; which of them is a Monday need not be known.

    Attributes:
        factors: float64[168], with mean 1.
    """

    def __init__(self) -> None:
        self.factors: Floats = np.ones(BINS)
        self._list = self.factors.tolist()
        self._observed: Floats = np.zeros((DAYS, HOURS))
        self._expected: Floats = np.zeros((DAYS, HOURS))

    def at(self, time_s: float) -> float:
        """Return the factor at a time."""
        factor: float = self._list[int(time_s // HOUR_S) % BINS]
        return factor

    def of(self, times_s: Floats) -> Floats:
        """Return the factors at times, float64[n]."""
        return self.factors[(times_s // HOUR_S).astype(np.int64) % BINS]

    def observe(self, time_s: float, arrivals: float) -> None:
        """Add observed arrivals, which may be parts of one."""
        at = int(time_s // HOUR_S) % BINS
        self._observed[at // HOURS, at % HOURS] += arrivals

    def expect(self, time_s: float, arrivals: float) -> None:
        """Add the number of arrivals that a factor of 1 would have given in the hour of a time."""
        at = int(time_s // HOUR_S) % BINS
        self._expected[at // HOURS, at % HOURS] += arrivals

    def refresh(self, elapsed_s: float) -> None:
        """Calculate the factors again, and let the past count less by the time that has passed."""
        seen, due = self._observed, self._expected
        hours = (seen.sum(0) + PRIOR) / (due.sum(0) + PRIOR)
        days = (seen.sum(1) + PRIOR) / (due.sum(1) + PRIOR)
        level = (seen.sum() + PRIOR) / (due.sum() + PRIOR)
        coarse = days[:, None] * hours[None, :] / level
        fine = (seen + PRIOR * coarse) / (due + PRIOR)
        self.factors = (fine / fine.mean()).ravel()
        self._list = self.factors.tolist()
        kept = math.exp(-elapsed_s / FORGETTING_S)
        self._observed *= kept
        self._expected *= kept
