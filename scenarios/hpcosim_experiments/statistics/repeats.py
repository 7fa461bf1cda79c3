"""Repeats that are no repeats: runs with the same metrics, which count once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hpcosim_experiments.statistics.rows import Row, groups


class Identical(NamedTuple):
    """An axis of repeats whose labels make no difference in some combinations.

    Attributes:
        axis: the axis.
        combinations: number of combinations in which all runs over the axis are identical.
        of: number of combinations with several successful runs over the axis.
    """

    axis: str
    combinations: int
    of: int

    @property
    def text(self) -> str:
        """A sentence that says how the statistics treat the runs."""
        where = ""
        if self.combinations < self.of:
            where = f" in {self.combinations} of {self.of} combinations"
        return (
            f"{self.axis} makes no difference{where}: all metrics of the runs are equal, so these "
            f"runs count as one and have no interval."
        )


def metrics_in(row: Row) -> Mapping[str, Any]:
    """Return the values of a row that are not texts: its metrics and its numeric labels."""
    return {name: value for name, value in row.items() if not isinstance(value, str)}


def distinct(
    rows: Sequence[Row],
    over: Sequence[str],
    metrics: Callable[[Row], Mapping[str, Any]] = metrics_in,
) -> list[Row]:
    """Return rows without the copies along the axes of repeats.

    If all rows that differ only by their label on an axis are identical, for every combination of
    the other axes of repeats, the first row of each stays. Otherwise all rows stay, so that values
    that are equal by chance count.

    Args:
        rows: successful runs of one combination.
        over: axes of repeats.
        metrics: returns the values to compare; labels on `over` are ignored.
    """
    found = list(rows)
    for axis in over:
        found = without_copies(found, axis, over, metrics) or found
    return found


def without_copies(
    rows: Sequence[Row],
    axis: str,
    over: Sequence[str],
    metrics: Callable[[Row], Mapping[str, Any]] = metrics_in,
) -> list[Row]:
    """Return the first row of each set of copies along an axis; empty: some rows are no copies.

    Arguments are those of `distinct`.
    """
    along = groups(rows, *(other for other in over if other != axis)).values()
    if len(along) == len(rows):
        return []

    def values(row: Row) -> dict[str, Any]:
        return {name: value for name, value in metrics(row).items() if name not in over}

    same = all(values(row) == values(group[0]) for group in along for row in group[1:])
    return [group[0] for group in along] if same else []
