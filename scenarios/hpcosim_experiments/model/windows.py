"""Windows of a job log that overlap, and are therefore no independent repeats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from hpcosim_experiments.model.axes import AxisValue, ResolvedAxis
from hpcosim_experiments.model.combinations import Axes

WINDOWS = ("workload.window_s", "workload.jobs")
"""Paths that select a window of jobs: its first time or number, and the one after its last."""


def overlap_warnings(axes: Axes, over: Iterable[str]) -> Iterator[str]:
    """Yield a warning for each axis of repeats with windows that overlap.

    Args:
        axes: the axes.
        over: the axes of repeats.
    """
    for name in over:
        if pair := _overlapping(axes[name]):
            first, second = pair
            yield (
                f"axes.{name}: the windows {first.label} and {second.label} overlap, so their runs "
                f"share jobs; confidence intervals assume independent repeats and are too narrow. "
                f"Choose windows without common jobs"
            )


def _overlapping(axis: ResolvedAxis) -> tuple[AxisValue, AxisValue] | None:
    """Return the first two values whose windows of one log overlap; None: there are none."""
    for path in WINDOWS:
        having = [value for value in axis.values if _is_window(value.settings.get(path))]
        for one, other in combinations(having, 2):
            (begin, end), (after, until) = one.settings[path], other.settings[path]
            if max(begin, after) < min(end, until) and _rest(one, path) == _rest(other, path):
                return one, other
    return None


def _is_window(value: object) -> bool:
    """Return whether a value is a pair of numbers; other values are reported as errors."""
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and all(isinstance(bound, (int, float)) for bound in value)
    )


def _rest(value: AxisValue, path: str) -> dict[str, object]:
    return {name: each for name, each in value.settings.items() if name != path}
