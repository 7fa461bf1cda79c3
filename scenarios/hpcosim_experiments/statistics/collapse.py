"""The runs of an experiment that count: one for all identical repeats of a combination."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hpcosim_experiments.statistics.repeats import Identical, without_copies
from hpcosim_experiments.statistics.rows import Row, Rows, groups
from hpcosim_experiments.statistics.summary import succeeded


class Counted(NamedTuple):
    """The runs that count in statistics.

    Attributes:
        rows: the runs; of identical repeats, the first.
        identical: the axes of repeats that make no difference somewhere.
    """

    rows: list[Row]
    identical: list[Identical]


def counted(rows: Rows, axes: Sequence[str], over: Sequence[str]) -> Counted:
    """Return the runs that count in the statistics of each combination.

    Args:
        rows: all runs. Failed runs stay, unless the other repeats of their combination are
            identical.
        axes: all axes.
        over: the axes of repeats.
    """
    kept = [axis for axis in axes if axis not in over]
    found: list[Row] = []
    same = dict.fromkeys(over, 0)
    several = dict.fromkeys(over, 0)
    for group in groups(rows, *kept).values():
        left = group
        for axis in over:
            ran = [row for row in left if succeeded(row)]
            several[axis] += len({row[axis] for row in ran}) > 1
            if fewer := without_copies(ran, axis, over):
                same[axis] += 1
                left = fewer
        found += left
    identical = [Identical(axis, same[axis], several[axis]) for axis in over if same[axis]]
    return Counted(found, identical)
