"""The Pareto front of points."""

from __future__ import annotations

from collections.abc import Sequence


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the points that no other point dominates, by ascending first coordinate.

    A point dominates another one if it is smaller in one coordinate and not larger in the other.
    Of equal points the first is returned.

    Args:
        points: points whose coordinates are better if they are smaller.

    Returns:
        Indices into `points`.
    """
    found: list[int] = []
    for at in sorted(range(len(points)), key=lambda at: points[at]):
        if not found or points[at][1] < points[found[-1]][1]:
            found.append(at)
    return found
