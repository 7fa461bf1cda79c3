"""Statistics of repeats and tasks, compared with slow versions and with SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_experiments.statistics.bootstrap import (
    interquartile_difference,
    interquartile_mean,
    interquartile_ratio,
    mean,
    paired_difference,
    paired_ratio,
)
from support.examples import examples

VALUE = st.floats(-1e3, 1e3, width=32)
STRATA = st.lists(st.lists(VALUE, min_size=1, max_size=9), min_size=1, max_size=4)


def slow_interquartile_mean(values: list[float]) -> float:
    """Return the mean without a quarter of the values at each end, one value after the other."""
    left = sorted(values)
    for _ in range(len(values) // 4):
        left.remove(min(left))
        left.remove(max(left))
    return sum(left) / len(left)


@given(STRATA)
@examples(100)
def test_the_interquartile_mean_drops_a_quarter_at_each_end(strata: list[list[float]]) -> None:
    """Runs and tasks count together, as in rliable."""
    found = float(interquartile_mean([np.array(one) for one in strata]))
    every = [value for one in strata for value in one]
    assert found == pytest.approx(slow_interquartile_mean(every), abs=1e-6)


@pytest.mark.slow  # imports SciPy
@given(STRATA)
def test_the_interquartile_mean_is_a_trimmed_mean(strata: list[list[float]]) -> None:
    """SciPy's mean without a quarter at each end, which rliable calls, is the same."""
    stats = pytest.importorskip("scipy.stats")
    expected = stats.trim_mean([value for one in strata for value in one], 0.25)
    found = float(interquartile_mean([np.array(one) for one in strata]))
    assert found == pytest.approx(float(expected), abs=1e-6)


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 100))
@examples(50)
def test_bootstrap_samples_are_evaluated_one_by_one(runs: int, tasks: int, seed: int) -> None:
    """The statistics of many samples at once are those of each sample."""
    rng = np.random.default_rng(seed)
    samples = [rng.uniform(1, 2, size=(5, runs, 2)) for _ in range(tasks)]
    for statistic in (paired_difference, paired_ratio, interquartile_difference):
        one_by_one = [float(statistic([one[at] for one in samples])) for at in range(5)]
        assert statistic(samples).tolist() == pytest.approx(one_by_one)


def test_tasks_have_equal_weights() -> None:
    """A task with more repeats counts as much as the others."""
    assert float(mean([np.array([1.0, 1.0, 1.0]), np.array([5.0])])) == 3.0


def test_a_ratio_is_that_of_the_means() -> None:
    """The ratio of pairs (2, 1) and (4, 5) is 6 / 6, not the mean of 2 and 0.8."""
    assert float(paired_ratio([np.array([[2.0, 1.0], [4.0, 5.0]])])) == 1.0


def test_the_interquartile_ratio_is_that_of_pairs() -> None:
    """Of the ratios 2, 3, 4 and 100 the middle half has the mean 3.5."""
    pairs = np.array([[2.0, 1.0], [6.0, 2.0], [4.0, 1.0], [100.0, 1.0]])
    assert float(interquartile_ratio([pairs])) == 3.5


def test_a_ratio_to_0_is_undefined() -> None:
    """Ratios to a baseline of 0 are NaN, also if the trimmed mean would drop them."""
    assert math.isnan(float(paired_ratio([np.array([[2.0, 0.0]])])))
    pairs = np.array([[1.0, 1.0]] * 4 + [[1.0, 0.0]])
    assert math.isnan(float(interquartile_ratio([pairs])))
