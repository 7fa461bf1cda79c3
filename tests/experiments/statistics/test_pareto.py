"""The Pareto front."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hpcosim_experiments.report.figures import front
from support.examples import examples

POINTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12)


@given(POINTS)
@examples(200)
def test_the_front_has_all_points_that_none_dominates(points: list[tuple[int, int]]) -> None:
    """The front equals that of comparing each point with each other one."""
    undominated = {
        point
        for point in points
        if not any(
            other[0] <= point[0] and other[1] <= point[1] and other != point for other in points
        )
    }
    found = front(points)
    assert [points[at] for at in found] == sorted(undominated)
    assert all(points.index(points[at]) == at for at in found)
