"""How far the predictive power manager expects the demand to rise above all that it has seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpcosim_schedulers.predictive.futures import EXPONENT, Records

SAMPLES = 20_000


def seen(nodes: int, *instants: tuple[float, float, int]) -> Records:
    """Return the records of a cluster that has seen demands: time, nodes, jobs."""
    records = Records(nodes)
    for now_s, demand, jobs in instants:
        records.update(now_s, demand, jobs)
    return records


@pytest.mark.parametrize(("seen_s", "ahead_s"), [(600.0, 2700.0), (2700.0, 2700.0), (1e5, 2700.0)])
def test_a_record_comes_with_the_share_of_its_time(seen_s: float, ahead_s: float) -> None:
    """After s, the highest value within s + t falls into t with probability t / (s + t)."""
    surges = seen(1000, (50.0, 1.0, 1)).surges(
        50.0 + seen_s, ahead_s, 1.0, SAMPLES, np.random.default_rng(1)
    )
    share = len(np.unique(surges.sample)) / SAMPLES
    assert share == pytest.approx(ahead_s / (seen_s + ahead_s), abs=4.0 * 0.5 / SAMPLES**0.5)


def test_the_first_of_few_records_has_a_scale_free_ratio() -> None:
    """P(ratio > x) = x ** -EXPONENT, where a second record is unlikely."""
    surges = seen(10**6, (0.0, 100.0, 1)).surges(
        1e5, 1e3, 100.0, 100 * SAMPLES, np.random.default_rng(1)
    )
    ratio = 1.0 + np.bincount(surges.sample, weights=surges.nodes) / 100.0
    ratio = ratio[ratio > 1.0]
    for bound in (2.0, 4.0):
        expected = bound**-EXPONENT
        assert (ratio > bound).mean() == pytest.approx(expected, abs=4.0 * 0.5 / len(ratio) ** 0.5)


@given(
    st.integers(0, 2**32),
    st.integers(1, 50),
    st.floats(0.0, 50.0),
    st.floats(0.0, 50.0),
    st.floats(0.0, 1e5),
)
@example(0, 1, 5e-324, 0.0, 0.0)
def test_surges_are_sorted_and_stay_within_the_cluster(
    seed: int, nodes: int, most: float, held: float, seen_s: float
) -> None:
    """Also where more is asked for than there is, and at the first instant."""
    surges = seen(nodes, (0.0, most, 3)).surges(seen_s, 5e3, held, 20, np.random.default_rng(seed))
    assert (np.lexsort((surges.after_s, surges.sample)) == np.arange(len(surges.sample))).all()
    assert (surges.after_s >= 0.0).all()
    assert (surges.after_s <= 5e3 * (1.0 + 1e-9)).all()
    assert (surges.nodes > 0.0).all()
    level = held + np.bincount(surges.sample, weights=surges.nodes, minlength=20)
    assert (level <= max(nodes, held) + 1e-9).all()


def test_surges_consist_of_jobs_of_the_present_mean_size() -> None:
    """At most, because whole jobs fill the rise."""
    surges = seen(1000, (0.0, 40.0, 10)).surges(60.0, 3600.0, 40.0, 100, np.random.default_rng(1))
    assert surges.nodes.max() <= 4.0
    assert surges.nodes.mean() > 3.0
