"""Comparison of power managers at equal waste."""

from __future__ import annotations

import math

import pytest

from papers.power.predictive.equal_waste import change, efficient, wait_at

TIMEOUTS = [(300.0, 2.0), (100.0, 10.0), (250.0, 12.0), (200.0, 6.0)]


def test_a_run_that_wastes_and_waits_more_than_another_is_left_out() -> None:
    """Such a run says nothing of what the baseline can do."""
    assert efficient(TIMEOUTS) == [(100.0, 10.0), (200.0, 6.0), (300.0, 2.0)]


@pytest.mark.parametrize(
    ("waste", "wait"), [(100.0, 10.0), (150.0, 8.0), (250.0, 4.0), (300.0, 2.0)]
)
def test_the_wait_of_a_baseline_is_linear_between_its_runs(waste: float, wait: float) -> None:
    """Other runs of it say nothing there."""
    assert wait_at(TIMEOUTS, waste) == pytest.approx(wait)


@pytest.mark.parametrize("waste", [99.0, 301.0])
def test_no_wait_is_known_outside_of_the_runs_of_a_baseline(waste: float) -> None:
    """A comparison there would be an extrapolation."""
    assert math.isnan(wait_at(TIMEOUTS, waste))


def test_added_waits_are_compared_not_all_waits() -> None:
    """The wait with all nodes on is no fault of the manager."""
    assert change((150.0, 5.0), TIMEOUTS, least_wait=2.0) == pytest.approx(-0.5)


def test_no_change_is_known_from_a_baseline_without_added_wait() -> None:
    """A ratio to no wait is no number."""
    assert math.isnan(change((300.0, 3.0), TIMEOUTS, least_wait=2.0))
