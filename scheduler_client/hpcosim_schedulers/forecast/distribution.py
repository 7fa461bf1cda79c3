"""A distribution of a time as weighted values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from hpcosim_client.arrays import Floats


class TimeDistribution(NamedTuple):
    """A distribution of a time, s.

    Attributes:
        values_s: float64[n], the possible times, ascending.
        upto: float64[n], probability of a time up to each of them; the last is 1.
    """

    values_s: Floats
    upto: Floats

    def quantiles(self, levels: Sequence[float] | Floats) -> Floats:
        """Return the smallest times with at least these probabilities, float64[levels], s."""
        at = np.searchsorted(self.upto, np.asarray(levels) - 1e-12)
        return self.values_s[np.minimum(at, len(self.upto) - 1)]

    def mean_s(self) -> float:
        """Return the mean, s."""
        return float(self.values_s @ np.diff(self.upto, prepend=0.0))

    def probability(self, time_s: float) -> float:
        """Return the probability of at most a time."""
        at = int(np.searchsorted(self.values_s, time_s, side="right"))
        return float(self.upto[at - 1]) if at else 0.0

    def after(self, elapsed_s: float) -> TimeDistribution:
        """Return the distribution given that the time is longer than `elapsed_s`, s.

        If all values are shorter, the time left is as long as that which has passed, times 1/4,
        1 or 4 with equal probabilities.
        """
        first = int(np.searchsorted(self.values_s, elapsed_s, side="right"))
        if not first:
            return self
        passed = float(self.upto[first - 1])
        if first == len(self.upto) or passed >= 1.0 - 1e-9:
            left_s = max(elapsed_s, 1.0) * np.array([0.25, 1.0, 4.0])
            return TimeDistribution(elapsed_s + left_s, np.array([1.0, 2.0, 3.0]) / 3.0)
        return TimeDistribution(
            self.values_s[first:], (self.upto[first:] - passed) / (self.upto[-1] - passed)
        )

    def resampled(self, generator: Generator) -> TimeDistribution:
        """Return the same times with random probabilities.

        The spread between such distributions is what a short history leaves unknown (the Bayesian
        bootstrap: Rubin 1981, DOI 10.1214/aos/1176345338). The probabilities p are drawn from a
        Dirichlet distribution with parameters n p, where n = 1 / sum of p^2 is the effective number
        of values.
        """
        share = np.diff(self.upto, prepend=0.0)
        weights = generator.gamma(share / (share @ share)) + 1e-12
        upto = weights.cumsum()
        return TimeDistribution(self.values_s, upto / upto[-1])

    def drawn_s(self, generator: Generator, samples: int) -> Floats:
        """Return random times, float64[samples], s."""
        return self.quantiles(generator.random(samples))


def weighted(values_s: Floats, weights: Floats) -> TimeDistribution:
    """Return the distribution of values with weights, in any order; the weights are above 0."""
    order = values_s.argsort(kind="stable")
    upto = weights[order].cumsum()
    return TimeDistribution(values_s[order], upto / upto[-1])
