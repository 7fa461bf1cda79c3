"""Comparison over all weeks: wins, and the choice of a representative week."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hpcosim_experiments.statistics.rows import Rows, groups, where
from hpcosim_papers.node_centric.study.paper import (
    CAPS,
    CHAINED,
    OURS,
    PAPERS_DUPLEX,
    SCHEDULERS,
    TIE,
    WEEK_S,
    WELL_BEYOND,
    Floats,
    Reading,
)
from hpcosim_workloads.table import JobTable


def by_scheduler(rows: Rows, column: str) -> dict[str, Floats]:
    """Return a column by scheduler, one value per week, from rows with the same cap."""
    found = groups(rows, "scheduler").items()
    return {scheduler: np.array([row[column] for row in of]) for (scheduler,), of in found}


def wins(values: Mapping[str, Floats], among: Sequence[str]) -> dict[str, int]:
    """Return the number of weeks in which each scheduler has the lowest value; ties count."""
    best = np.min([values[scheduler] for scheduler in among], axis=0)
    return {
        scheduler: int((values[scheduler] <= best + TIE * np.abs(best)).sum())
        for scheduler in among
    }


def both_wins(rows: Rows, reading: Reading) -> tuple[dict[str, int], dict[str, int]]:
    """Return the wins among the paper's five schedulers, and among all."""
    values = by_scheduler(rows, reading.column)
    return wins(values, [*OURS, *CHAINED]), wins(values, list(SCHEDULERS))


def representative_week(rows: Rows) -> int:
    """Return the week to draw.

    The candidates are the weeks that resemble the paper's figures, or all weeks if none does. Of
    them it is the one whose makespans and energies of HighGFlops and LowPower, relative to
    Duplex, are nearest to the medians of these ratios over all weeks.
    """
    weeks: list[int] = sorted({row["week"] for row in rows})
    distance = np.zeros(len(weeks))
    for column in ("makespan_s", "energy_fraction_j"):
        values = by_scheduler(rows, column)
        for scheduler in OURS:
            ratio = values[scheduler] / values[PAPERS_DUPLEX]
            distance += np.abs(np.log(ratio / np.median(ratio)))
    fitting = resembles_figures(rows)
    if fitting.any():
        distance[~fitting] = np.inf
    return weeks[int(np.argmin(distance))]


def resembles_figures(rows: Rows) -> NDArray[np.bool_]:
    """Return for each week whether it resembles the paper's figures 4 and 5.

    It does if the makespan of Duplex is above `WELL_BEYOND` weeks, HighGFlops ends first, LowPower
    takes the least energy and Duplex the most.
    """
    ends, spent = (
        [by_scheduler(rows, column)[name] for name in (*OURS, PAPERS_DUPLEX)]
        for column in ("makespan_s", "energy_fraction_j")
    )
    ours_first = (ends[0] < ends[1]) & (ends[0] < ends[2])
    return (
        (ends[2] > WELL_BEYOND * WEEK_S)
        & ours_first
        & (spent[1] < spent[0])
        & (spent[0] < spent[2])
    )


def facts(logs: Mapping[str, JobTable], rows: Rows, drawn: Mapping[str, int]) -> list[str]:
    """Return the properties of the workload, one sentence each.

    Args:
        logs: the jobs of all weeks, by cap.
        rows: the rows of all runs.
        drawn: the week to draw, by cap.
    """
    jobs = next(iter(logs.values()))
    days = float(jobs.submit_s[-1] - jobs.submit_s[0]) / 86400
    found = [
        f"{len(jobs)} jobs in {days:.0f} days, {len(jobs) / max(days, 1):.0f} a day (paper: 199), "
        f"of {jobs.run_s.mean() / 3600:.1f} h on average (paper: 4.9 h).",
    ]
    size = {row["week"]: row["jobs"] for row in rows}
    found.append(
        f"{len(size)} weeks, {sum(size.values()) / len(size):.0f} jobs in each on average (paper: "
        f"{7 * 199}). Weeks are counted from 0."
    )
    for cap, says in CAPS.items():
        cores = logs[cap].cores.mean()
        alike = int(resembles_figures(where(rows, cap=cap)).sum())
        found.append(
            f"`{cap}`, {says}: {cores:.1f} cores a job on average (paper: 24.6). Weeks that go as "
            f"in the paper's figures 4 and 5 (Duplex needs more than {WELL_BEYOND * 168:.0f} h, "
            "HighGFlops ends first, LowPower takes least energy and Duplex most of the three): "
            f"{alike}. Drawn is week {drawn[cap]}, of {size[drawn[cap]]} jobs."
        )
    return found
