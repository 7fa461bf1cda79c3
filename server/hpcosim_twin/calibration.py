"""Ranges that are as wide as earlier forecasts should have been; how good forecasts were."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from hpcosim_twin.forecast import HIGH, StartForecast
from hpcosim_twin.observation import Observation, read_json

LEAST = 20
"""Number of earlier forecasts from which on ranges are widened."""
MAX_BYTES = 1 << 26
WANTED = "the output of `hpcosim forecast --json`"


class PastRange(NamedTuple):
    """An earlier forecast of a job; times in s on one clock.

    Attributes:
        high_s: upper end.
        start_s: the start; None: the job still waits.
    """

    low_s: float
    high_s: float
    start_s: float | None


class Margins(NamedTuple):
    """By how much ranges are widened: `low_s` downwards, `high_s` upwards, s, >= 0."""

    low_s: float
    high_s: float


def margins(past: Iterable[PastRange], now_s: float) -> Margins:
    """Return the margins with which 90 % of the earlier forecasts would have held at each end.

    This is conformalized quantile regression (Romano, Patterson and Candes 2019, arXiv 1905.03222),
    for each end of the range. A job that still waits counts as one that starts now, if its range is
    over. The forecasts of a cluster are not exchangeable, so a coverage of 80 % is not guaranteed.

    Args:
        past: earlier forecasts, as they were drawn.
    """
    late, early = [], []
    for each in past:
        start_s = each.start_s
        if start_s is None:
            if each.high_s >= now_s:
                continue
            start_s = now_s
        early.append(each.low_s - start_s)
        late.append(start_s - each.high_s)
    if len(late) < LEAST:
        return Margins(0.0, 0.0)
    low_s, high_s = np.maximum(np.quantile([early, late], HIGH, axis=1), 0.0).tolist()
    return Margins(low_s, high_s)


def widened(forecasts: Iterable[StartForecast], by: Margins, now_s: float) -> list[StartForecast]:
    """Return forecasts with wider ranges, which begin at `now_s` or later."""
    return [
        each._replace(low_s=max(each.low_s - by.low_s, now_s), high_s=each.high_s + by.high_s)
        for each in forecasts
    ]


class _Job(msgspec.Struct):
    job_id: int
    drawn_low_s: float | None
    drawn_high_s: float | None


class _Earlier(msgspec.Struct):
    jobs: list[_Job]


def past_ranges(files: Sequence[Path], seen: Observation) -> list[PastRange]:
    """Return the earlier forecasts of jobs that Slurm still shows; Unix times.

    Args:
        files: outputs of `hpcosim forecast --json`.

    Raises:
        OSError: a file cannot be read.
        ForecastError: a file is no such output.
    """
    found = []
    for path in files:
        for each in read_json(path, MAX_BYTES, _Earlier, WANTED).jobs:
            job = seen.state.jobs.get(each.job_id)
            if job is None or each.drawn_low_s is None or each.drawn_high_s is None:
                continue
            if job.started_s is not None:
                found.append(PastRange(each.drawn_low_s, each.drawn_high_s, job.started_s))
            elif job.state == "pending":
                found.append(PastRange(each.drawn_low_s, each.drawn_high_s, None))
    return found


class Forecasted(NamedTuple):
    """A forecast beside what happened; all times in s.

    Attributes:
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
