"""The paper's schedulers and measures, readings of its ambiguous parts, and wins by week."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hpcosim_experiments.report.units import Measure
from hpcosim_experiments.statistics.rows import Rows, groups, where
from hpcosim_protocol import Platform
from hpcosim_sim.record.run_record import RunRecord, node_spans
from hpcosim_workloads.table import JobTable

Floats = NDArray[np.float64]

WEEK_S = 7 * 86400.0
MOST_CORES = 64  # of a job and of a node
DIVISOR = 8
IDLE_W = 0.4  # idle power of a node, as table 1 prints it
TIE = 1e-9  # relative difference to the best below which two results are a tie
WELL_BEYOND = 1.25  # least makespan of Duplex, in weeks, in the representative week
BUSY = 1000  # least number of jobs of a busy week; the paper's weeks have 1393 on average
NOTEWORTHY = 1.0  # least difference that is reported, in %

# Labels of schedulers by name: the paper's two; its baselines as its program runs them, errors
# included; the same without the errors; and the same heuristics in batch mode.
OURS = {"first-high-gflops": "HighGFlops", "first-low-power": "LowPower"}
CHAINED = {
    "minmin-chained": "MinMin chained",
    "maxmin-chained": "MaxMin chained",
    "duplex-chained": "Duplex chained",
}
IMMEDIATE = {
    "minmin-immediate": "MinMin immediate",
    "maxmin-immediate": "MaxMin immediate",
    "duplex-immediate": "Duplex immediate",
}
BATCH = {"minmin": "MinMin batch", "maxmin": "MaxMin batch", "duplex": "Duplex batch"}
SCHEDULERS: Mapping[str, str] = OURS | CHAINED | IMMEDIATE | BATCH
PAPERS_DUPLEX = "duplex-chained"
FAMILIES = (CHAINED, IMMEDIATE, BATCH)

CAPS: Mapping[str, str] = {
    "clip": f"jobs clipped to {MOST_CORES} cores",
    "eighth": f"cores divided by {DIVISOR}, then clipped to {MOST_CORES}",
}
"""Caps: ways to fit the jobs of the log into one node, by name."""

IDLES: Mapping[str, str] = {
    "fraction": "idle 0.3959 x static",
    "watts": f"idle {IDLE_W} W",
    "fraction_untouched": "idle 0.3959 x static, 0 W before a node's first task",
    "watts_untouched": f"idle {IDLE_W} W, 0 W before a node's first task",
}
"""Interpretations of the power of an idle node, by name."""


class Reading(NamedTuple):
    """A measure under one interpretation of its definition.

    Attributes:
        measure: the measure, with its column in `results.csv`.
        reading: the interpretation; empty: the definition is unambiguous.
        paper: the published changes of the median relative to the baseline, in %: that of
            HighGFlops and that of LowPower.
    """

    measure: Measure
    reading: str
    paper: tuple[float, float]

    @property
    def column(self) -> str:
        """The column of the measure."""
        return self.measure.column

    @property
    def named(self) -> str:
        """The title of the measure, with the interpretation."""
        return ", ".join(filter(None, (self.measure.title, self.reading)))


def _read(
    column: str, title: str, reading: str, unit: str, scale: float, paper: tuple[float, float]
) -> Reading:
    return Reading(Measure(column, title, unit, scale), reading, paper)


READINGS: tuple[Reading, ...] = (
    _read("makespan_s", "makespan", "", "h", 3600.0, (-11.5, 11.0)),
    _read("mean_wait_s", "mean wait", "", "h", 3600.0, (-80.0, -75.0)),
    _read("slowdown_requested", "slowdown", "t_b as requested", "", 1.0, (-94.0, -75.0)),
    _read("slowdown_run", "slowdown", "t_b at 1 GHz", "", 1.0, (-94.0, -75.0)),
    *(
        _read(f"energy_{idle}_j", "energy", says, "kWh", 3.6e6, (-10.0, -17.0))
        for idle, says in IDLES.items()
    ),
    *(
        _read(f"edp_{idle}_js", "EDP", says, "MWh h", 3.6e9 * 3600.0, (-33.0, -10.0))
        for idle, says in IDLES.items()
    ),
)
DRAWN = tuple(reading for reading in READINGS if "untouched" not in reading.column)
COLUMNS = ("cap", "week", "scheduler", "jobs", *(reading.column for reading in READINGS))
"""Columns of `results.csv`, which has a row per cap, week and scheduler; weeks count from 0."""


def measured(record: RunRecord, jobs: JobTable) -> dict[str, float]:
    """Return all measures of a run in all interpretations."""
    makespan_s = record.end_s - record.start_s
    values = {"makespan_s": makespan_s, **waits(record, jobs)}
    for idle, platform in platforms(record.platform).items():
        all_on_j, untouched_off_j = energies_j(record, platform)
        values[f"energy_{idle}_j"] = all_on_j
        values[f"energy_{idle}_untouched_j"] = untouched_off_j
    for idle in IDLES:
        values[f"edp_{idle}_js"] = values[f"energy_{idle}_j"] * makespan_s
    return values


def waits(record: RunRecord, jobs: JobTable) -> dict[str, float]:
    """Return mean wait and mean slowdown, (wait + run time) / t_b (section 3).

    t_b is the time of the job alone on the slowest node, in two interpretations: the requested time
    and the run time. The run times of the log are those on the slowest node. Jobs with t_b = 0 are
    excluded from the slowdown.
    """
    recording = record.recording
    submit_s, start_s = np.array(recording.submit_s), np.array(recording.start_s)
    response_s = np.array(recording.end_s) - submit_s
    return {
        "mean_wait_s": float((start_s - submit_s).mean()),
        "slowdown_requested": _mean_ratio(response_s, jobs.requested_s),
        "slowdown_run": _mean_ratio(response_s, jobs.run_s),
    }


def platforms(platform: Platform) -> dict[str, Platform]:
    """Return the platform in each interpretation of idle power."""
    groups = []
    for group in platform.nodes:
        share_w = IDLE_W / len(group.processors)
        processors = tuple(
            replace(each, idle_fraction=share_w / each.static_w) for each in group.processors
        )
        groups.append(replace(group, processors=processors))
    return {"fraction": platform, "watts": replace(platform, nodes=tuple(groups))}


def energies_j(record: RunRecord, platform: Platform) -> tuple[float, float]:
    """Return the energy of a schedule on a platform with other power settings.

    The schedules are independent of idle power, so one simulation serves every interpretation.

    Returns:
        The energy of all nodes in J, and its part after the first task of each node.
    """
    total_j = untouched_j = 0.0
    touched: set[int] = set()
    for span in node_spans(dataclasses.replace(record, platform=platform)):
        node_j = span.power_w * (span.end_s - span.start_s)
        total_j += node_j * len(span.nodes)
        if span.state == "computing":
            touched.update(span.nodes)
        else:
            untouched_j += node_j * sum(node not in touched for node in span.nodes)
    return total_j, total_j - untouched_j


def _mean_ratio(above: Floats, below: Floats) -> float:
    some = below > 0
    return float((above[some] / below[some]).mean()) if some.any() else 0.0


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
