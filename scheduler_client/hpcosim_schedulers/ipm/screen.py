"""The screen of SNF-ICON: whether recent samples look exponentially distributed."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from hpcosim_client.job import Floats

LEAST_SAMPLES = 3
MOST_SAMPLES = 1000
CV_TOLERANCE = 0.45
MOST_CORRELATION = 0.65
KS_LIMIT = 1.25 * 3.0
"""Limit of the Kolmogorov-Smirnov distance times the square root of the number of samples. Below 15
samples it exceeds 1, and so rejects nothing."""


class RecentSamples:
    """Samples of the last `window_s` seconds, at most `MOST_SAMPLES`.

    Args:
        window_s: length of the window, simulated seconds, > 0.
    """

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._samples: deque[tuple[float, float]] = deque(maxlen=MOST_SAMPLES)

    def add(self, at_s: float, value: float) -> None:
        """Add a sample of a time that is not before the last one."""
        self._samples.append((at_s, value))

    def values(self, now_s: float) -> Floats:
        """Return float64[samples] of the window up to now, in the order of their times."""
        while self._samples and self._samples[0][0] < now_s - self._window_s:
            self._samples.popleft()
        return np.array([value for _, value in self._samples])


def looks_exponential(values: Floats) -> bool:
    """Return whether a series passes the screen.

    It does if it has at least `LEAST_SAMPLES` samples, their coefficient of variation (population)
    is within `CV_TOLERANCE` of 1, the absolute correlation of successive samples is at most
    `MOST_CORRELATION` (without variation it counts as 1), and the Kolmogorov-Smirnov distance to
    the exponential distribution of the same mean is at most `KS_LIMIT` / sqrt(samples).

    Args:
        values: float64[samples], >= 0.
    """
    count = len(values)
    if count < LEAST_SAMPLES or (mean := float(values.mean())) <= 0.0:
        return False
    return (
        abs(float(values.std()) / mean - 1.0) <= CV_TOLERANCE
        and abs(_correlation(values[:-1], values[1:])) <= MOST_CORRELATION
        and _ks_distance(values, mean) <= KS_LIMIT / math.sqrt(count)
    )


def _correlation(one: Floats, other: Floats) -> float:
    one, other = one - one.mean(), other - other.mean()
    scale = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / scale if scale > 0.0 else 1.0


def _ks_distance(values: Floats, mean: float) -> float:
    fitted = -np.expm1(-np.sort(values) / mean)
    below = np.arange(len(values)) / len(values)
    return float(max((fitted - below).max(), (below + 1.0 / len(values) - fitted).max()))
