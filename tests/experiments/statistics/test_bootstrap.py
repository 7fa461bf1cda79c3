"""Confidence intervals by the bootstrap, compared with a slow version and with SciPy."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_experiments.statistics import bootstrap
from hpcosim_experiments.statistics.bootstrap import (
    Bootstrap,
    Estimate,
    Strata,
    estimate,
    interquartile_mean,
    mean,
    paired_ratio,
)
from support.examples import examples

VALUES = st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=8)
STRATA = st.lists(VALUES, min_size=1, max_size=3)


def arrays(strata: Sequence[Sequence[float]]) -> Strata:
    """Return strata as arrays."""
    return [np.array(values, dtype=np.float64) for values in strata]


def slow_interval(strata: Sequence[Sequence[float]], settings: Bootstrap) -> tuple[float, float]:
    """Return the percentile interval of the mean, one bootstrap sample after the other."""
    rng = np.random.default_rng(settings.seed)
    picks = [rng.integers(len(one), size=(settings.resamples, len(one))) for one in strata]
    means = []
    for sample in range(settings.resamples):
        of_tasks = []
        for values, pick in zip(strata, picks, strict=True):
            of_tasks.append(statistics.fmean([values[at] for at in pick[sample]]))
        means.append(statistics.fmean(of_tasks))
    tail = (1 - settings.confidence) / 2
    return quantile(sorted(means), tail), quantile(sorted(means), 1 - tail)


def quantile(ascending: Sequence[float], level: float) -> float:
    """Return a quantile that is interpolated between order statistics."""
    at = level * (len(ascending) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (at - low) * (ascending[high] - ascending[low])


@given(STRATA, st.sampled_from([0.5, 0.9, 0.95]))
@examples(60)
def test_percentile_intervals_equal_a_loop(strata: list[list[float]], level: float) -> None:
    """The interval of the mean is that of a loop over samples and strata."""
    settings = Bootstrap(level, resamples=100, seed=3)
    found = estimate(arrays(strata), mean, settings)
    assert (found.low, found.high) == pytest.approx(slow_interval(strata, settings), abs=1e-6)
    assert found.value == pytest.approx(statistics.fmean(map(statistics.fmean, strata)), abs=1e-6)


@pytest.mark.slow  # imports SciPy
@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("size", [3, 5, 30])
def test_intervals_equal_those_of_scipy(method: str, size: int) -> None:
    """With the same seed SciPy gives the same interval of a skewed sample."""
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(size).exponential(size=size)
    settings = Bootstrap(0.9, "bca" if method == "bca" else "percentile", 2000, 5)
    found = estimate([values], interquartile_mean, settings)
    expected = stats.bootstrap(
        (values,),
        lambda sample, axis=-1: stats.trim_mean(sample, 0.25, axis=axis),
        n_resamples=2000,
        confidence_level=0.9,
        method="BCa" if method == "bca" else "percentile",
        rng=np.random.default_rng(5),
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx(tuple(expected), rel=1e-12)


@given(STRATA)
@examples(60)
def test_an_interval_of_the_mean_is_within_the_range(strata: list[list[float]]) -> None:
    """The ends are ordered, and between the means of the smallest and of the largest values."""
    for method in ("percentile", "bca"):
        found = estimate(arrays(strata), mean, Bootstrap(method=method, resamples=100))
        least, most = (statistics.fmean(map(pick, strata)) for pick in (min, max))
        assert least - 1e-6 <= found.low <= found.high <= most + 1e-6
        assert found.size == sum(map(len, strata))


@given(VALUES, st.floats(-100, 100, width=32), st.floats(0.5, 100, width=32))
@examples(60)
def test_intervals_follow_the_unit(values: list[float], shift: float, factor: float) -> None:
    """An interval in another unit is the same interval."""
    settings = Bootstrap(resamples=100)
    one = estimate(arrays([values]), mean, settings)
    other = estimate(arrays([[shift + factor * value for value in values]]), mean, settings)
    assert other.low == pytest.approx(shift + factor * one.low, rel=1e-6, abs=1e-3)
    assert other.high == pytest.approx(shift + factor * one.high, rel=1e-6, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_intervals_cover_the_mean_of_the_population(method: str) -> None:
    """About 95 % of the intervals of samples of 30 contain the mean of their population."""
    rng = np.random.default_rng(1)
    settings = Bootstrap(method=method, resamples=1000)  # type: ignore[arg-type]
    covered = 0
    for _ in range(500):
        found = estimate([rng.normal(7.0, 2.0, size=30)], mean, settings)
        covered += found.low <= 7.0 <= found.high
    assert 0.91 < covered / 500 < 0.97


def test_a_single_repeat_has_no_interval() -> None:
    """The statistic is known; its interval is not, nor if only one stratum has a single repeat."""
    assert estimate(arrays([[4.0]]), mean, Bootstrap()).value == 4.0
    assert not estimate(arrays([[4.0]]), mean, Bootstrap()).has_interval
    assert not estimate(arrays([[4.0, 5.0], [1.0]]), mean, Bootstrap()).has_interval


def test_no_values_have_no_estimate() -> None:
    """The estimate of an empty sample is NaN with size 0."""
    found = estimate([], mean, Bootstrap())
    assert math.isnan(found.value)
    assert found.size == 0


def test_equal_values_have_an_interval_of_length_0() -> None:
    """A sample without variation has its value as both ends, with both methods."""
    for settings in (Bootstrap(), Bootstrap(method="bca")):
        assert estimate(arrays([[2.0] * 4]), mean, settings) == Estimate(2.0, 2.0, 2.0, 4)


def test_an_undefined_ratio_in_a_sample_leaves_no_interval() -> None:
    """Samples in which the baseline is 0 throughout have no ratio."""
    pairs = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 2.0]])
    found = estimate([pairs], paired_ratio, Bootstrap())
    assert found.value == pytest.approx(1.5)
    assert not found.has_interval


def test_samples_are_drawn_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The samples of a single stratum do not depend on the size of the blocks."""
    values = arrays([[1.0, 2.0, 5.0, 9.0]])
    whole = estimate(values, mean, Bootstrap(resamples=1000))
    monkeypatch.setattr(bootstrap, "BLOCK", 7)
    assert estimate(values, mean, Bootstrap(resamples=1000)) == whole
