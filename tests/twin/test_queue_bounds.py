"""Bounds of waits from past waits: the baseline of `benchmarks.forecast_ranges`."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from benchmarks.queue_bounds import QueueBounds, rare_run
from scipy.stats import binom


def bounds_of(waits_s: list[float]) -> tuple[float, float]:
    """Return the bounds of the range of 80 % after waits."""
    found = QueueBounds(0.8)
    for wait_s in waits_s:
        found.started(wait_s)
    return found.bounds()


def test_a_bound_is_the_least_wait_with_the_confidence() -> None:
    """By the definition: the k-th wait, where a binomial number is below k with 95 %."""
    waits_s = np.random.default_rng(1).exponential(1000.0, 120)
    low_s, high_s = bounds_of(waits_s.tolist())
    ordered = np.sort(waits_s)
    first = next(k for k in range(1, 121) if binom.cdf(k - 1, 120, 0.9) >= 0.95)
    assert high_s == ordered[first - 1]
    assert low_s == ordered[120 - first]
    assert bounds_of([1.0] * 28) == (0.0, math.inf)


def test_bounds_of_equal_waits_hold_with_the_confidence() -> None:
    """In about 95 of 100 queues the upper bound is above the 90 % quantile of the waits."""
    draw, quantile_s = np.random.default_rng(2), -math.log(0.1)
    held = [bounds_of(draw.exponential(1.0, 200).tolist())[1] > quantile_s for _ in range(60)]
    assert np.mean(held) >= 0.88


def test_a_change_of_the_queue_cuts_the_history() -> None:
    """After waits have become a hundred times as long, most of the short ones are forgotten."""
    draw = np.random.default_rng(3)
    waits_s = [*draw.exponential(100.0, 300).tolist(), *draw.exponential(10_000.0, 60).tolist()]
    whole = sorted(waits_s)[int(binom.ppf(0.95, 360, 0.9))]
    assert bounds_of(waits_s)[1] > 1.5 * whole


def test_runs_of_misses_are_longer_where_waits_are_alike() -> None:
    """Three in a row are rare for independent waits: 0.1 times 0.1 after the first."""
    found = [rare_run(0.9, share) for share in (0.0, 0.4, 0.8)]
    assert found[0] == 3
    assert all(first < second for first, second in pairwise(found))
