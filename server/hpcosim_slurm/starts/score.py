"""How good forecasts of starts were."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import NamedTuple


class Forecasted(NamedTuple):
    """A forecast beside what happened; all times in s.

    Attributes:
        actual_s: the start.
        median_s: its forecast.
        low_s: lower end of the range.
        high_s: upper end of the range.
        slurm_s: what `squeue --start` said; None: nothing.
    """

    actual_s: float
    median_s: float
    low_s: float
    high_s: float
    slurm_s: float | None


class Score(NamedTuple):
    """The score of forecasts.

    Attributes:
        forecasts: their number.
        error_s: median absolute error of the medians, s.
        coverage: share of the starts that lie in the range.
        compared: number of forecasts of jobs for which Slurm said something.
        compared_error_s: median absolute error of these, s; NaN: there are none.
        slurm_error_s: that of Slurm, s; NaN: it said nothing.
    """

    forecasts: int
    error_s: float
    coverage: float
    compared: int
    compared_error_s: float
    slurm_error_s: float


def score_of(forecasts: Iterable[Forecasted], tolerance_s: float = 1.0) -> Score:
    """Return the score of forecasts.

    Args:
        forecasts: at least one.
        tolerance_s: how far a start may lie outside the range, s: the grain of Slurm's times.
    """
    found = list(forecasts)
    both = [each for each in found if each.slurm_s is not None]
    inside = [
        each.low_s - tolerance_s <= each.actual_s <= each.high_s + tolerance_s for each in found
    ]
    return Score(
        len(found),
        statistics.median(abs(each.median_s - each.actual_s) for each in found),
        sum(inside) / len(found),
        len(both),
        _median(abs(each.median_s - each.actual_s) for each in both),
        _median(abs((each.slurm_s or 0.0) - each.actual_s) for each in both),
    )


def _median(values: Iterable[float]) -> float:
    found = list(values)
    return statistics.median(found) if found else math.nan
