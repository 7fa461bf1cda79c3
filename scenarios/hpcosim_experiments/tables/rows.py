"""The rows of the tables of an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hpcosim_sim.record.metrics import OVERRUNS

from hpcosim_experiments.runs.plan import Plan
from hpcosim_experiments.runs.result import RunResult
from hpcosim_experiments.statistics.rows import Row
from hpcosim_experiments.tables.columns import (
    BREAKDOWN,
    PROVENANCE,
    STATE,
    Columns,
    Kind,
    axis_columns,
)


class Rows(NamedTuple):
    """A table.

    Attributes:
        columns: its columns.
        rows: its rows; they have all columns.
    """

    columns: Columns
    rows: Sequence[Row]


def run_rows(plan: Plan, results: Mapping[str, RunResult], metrics: Columns) -> Rows:
    """Return the table with a row per run, in the order of the experiment.

    Args:
        plan: the experiment.
        results: the results by key.
        metrics: columns of the metrics.
    """
    rows = []
    for run in plan.runs:
        result = results[run.key]
        state = {"run_key": run.key, "status": result.status, "error": result.error}
        zero = 0 if result.metrics else None
        values = {
            name: result.metrics.get(name, zero if name in OVERRUNS else None) for name in metrics
        }
        origin = {name: getattr(result, name) for name in PROVENANCE}
        rows.append({**run.labels, **state, **values, **origin})
    return Rows({**axis_columns(plan), **STATE, **metrics, **PROVENANCE}, rows)


def breakdown_rows(plan: Plan, results: Mapping[str, RunResult]) -> Rows:
    """Return the table with a row per run and class of jobs, in the order of the experiment."""
    rows = [{**run.labels, **row} for run in plan.runs for row in results[run.key].breakdowns]
    kinds: dict[str, Kind] = {}
    for row in rows:
        for name in row.keys() - plan.axes.keys() - BREAKDOWN.keys():
            number = kinds.get(name) == "number" or isinstance(row[name], float)
            kinds[name] = "number" if number else "integer"
    ordered = {name: kinds[name] for row in rows[:1] for name in row if name in kinds}
    columns = {**axis_columns(plan), **BREAKDOWN, **ordered, **kinds}
    return Rows(columns, [{name: row.get(name) for name in columns} for row in rows])
