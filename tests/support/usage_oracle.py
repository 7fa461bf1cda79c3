"""Usage calculated slowly: every calculation of every job by itself."""

from __future__ import annotations

from typing import NamedTuple


class Run(NamedTuple):
    """A run of a job that is charged `rate` per second to a row."""

    row: int
    rate: float
    start_s: float
    end_s: float


def usage_at(
    runs: list[Run], row: int, at_s: float, half_life_s: float, period_s: float, first_s: float
) -> float:
    """Return the usage of a row at a time, with calculations at `first_s`, `+ period_s`, ..."""
    per_s = 1.0 - 0.693 / half_life_s
    total, last_s = 0.0, first_s
    times = [first_s + period_s * number for number in range(1, 1 + int(at_s / period_s) + 1)]
    for tick_s in [each for each in times if each <= at_s]:
        total = _with_ends(runs, row, total, last_s, tick_s, per_s)
        total *= per_s**period_s
        for run in runs:
            if run.row == row and run.end_s > tick_s:
                ran_s = tick_s - max(run.start_s, last_s)
                total += max(ran_s, 0.0) * per_s ** max(ran_s, 0.0) * run.rate
        last_s = tick_s
    return _with_ends(runs, row, total, last_s, at_s, per_s)


def _with_ends(
    runs: list[Run], row: int, total: float, after_s: float, until_s: float, per_s: float
) -> float:
    """Return the usage with what jobs add that ended in (after_s, until_s]."""
    for run in runs:
        if run.row == row and after_s < run.end_s <= until_s:
            ran_s = run.end_s - max(run.start_s, after_s)
            total += ran_s * per_s**ran_s * run.rate
    return total
