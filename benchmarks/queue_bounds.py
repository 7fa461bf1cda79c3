"""Ranges of waits from past waits of a queue alone: the baseline of forecasts by simulation."""

from __future__ import annotations

import math
from bisect import insort
from functools import cache

import numpy as np
from scipy.stats import binom

CONFIDENCE = 0.95
RARE = 0.05
"""Probability of a run of misses from which on it is a change of the queue."""
DRAWS = 200_000
TRAINED = 500
"""Number of last waits from which the autocorrelation is known."""


class QueueBounds:
    """Bounds of quantiles of the waits of a queue, as QBETS has them.

    Of n past waits, the k-th is an upper bound of the quantile q with a confidence if the binomial
    distribution of n and q has at least this confidence below k. Where more waits in a row lie
    beyond a bound than are likely for the autocorrelation of the queue, the queue has changed, and
    the history is cut to the shortest that has a bound (Nurmi, Brevik and Wolski 2007, QBETS: queue
    bounds estimation from time series, without its clusters of jobs). The lower bound is the upper
    one of the mirrored waits.

    Args:
        probability: that of the range, between quantiles of equal tails.
    """

    def __init__(self, probability: float) -> None:
        self._quantile = (1.0 + probability) / 2.0
        self._least = math.ceil(math.log(1.0 - CONFIDENCE) / math.log(self._quantile))
        self._history: list[float] = []
        self._sorted: list[float] = []
        self._runs = [0, 0]

    def started(self, wait_s: float) -> None:
        """Take the wait of a job that has started, s."""
        if len(self._sorted) >= self._least:
            low_s, high_s = self.bounds()
            rare = rare_run(self._quantile, self._autocorrelation())
            for side, is_missed in enumerate((wait_s < low_s, wait_s > high_s)):
                self._runs[side] = self._runs[side] + 1 if is_missed else 0
                if self._runs[side] >= rare:
                    self._history = self._history[-self._least :]
                    self._sorted = sorted(self._history)
                    self._runs = [0, 0]
                    break
        self._history.append(wait_s)
        insort(self._sorted, wait_s)

    def bounds(self) -> tuple[float, float]:
        """Return the lower and the upper bound, s; 0 and infinity: there are too few waits."""
        count = len(self._sorted)
        if count < self._least:
            return 0.0, math.inf
        at = int(binom.ppf(CONFIDENCE, count, self._quantile))  # of the first wait: 0
        at = min(at, count - 1)
        return self._sorted[count - 1 - at], self._sorted[at]

    def _autocorrelation(self) -> float:
        logs = np.log(np.array(self._history[-TRAINED:]) + 1.0)
        if len(logs) < 3 or logs.std() == 0.0:
            return 0.0
        found = np.corrcoef(logs[:-1], logs[1:])[0, 1]
        return round(max(0.0, min(float(found), 0.95)), 1) if math.isfinite(found) else 0.0


@cache
def rare_run(quantile: float, autocorrelation: float) -> int:
    """Return the length from which on a run of values above a quantile is rare.

    By simulation of an autoregressive process of order 1, as in the paper.
    """
    draw = np.random.default_rng(0)
    noise = draw.normal(0.0, math.sqrt(1.0 - autocorrelation**2), DRAWS)
    values = np.empty(DRAWS)
    last = 0.0
    for at, each in enumerate(noise.tolist()):
        last = autocorrelation * last + each
        values[at] = last
    missed = (values > np.quantile(values, quantile)).astype(np.int8)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], missed, [0]])))
    lengths = edges[1::2] - edges[::2]
    as_long = np.bincount(lengths)[::-1].cumsum()[::-1]  # runs of at least each length
    return int(np.searchsorted(-as_long, -RARE * len(lengths)))
