"""Files of tables: Parquet and CSV. The same rows give the same bytes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from hpcosim_experiments.definition import key_in
from hpcosim_experiments.errors import ExperimentFileError
from hpcosim_experiments.runs.plan import Plan
from hpcosim_experiments.runs.task import RunResult
from hpcosim_experiments.statistics.rows import Label, Row
from hpcosim_experiments.store import RunStore
from hpcosim_experiments.whole_files import draft_of, write_whole
from hpcosim_scenarios.model.series import load_economics
from hpcosim_scenarios.running.library import open_scenario
from hpcosim_sim.record.economics import UNKNOWN
from hpcosim_sim.record.metrics import LEAD_CLASSES_S, OVERRUNS, errors_by_lead
from hpcosim_sim.record.results import metrics_of
from hpcosim_sim.record.tables import JOBS
from hpcosim_workloads.table import job_table

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


# The rows of the tables of an experiment.


Kind = Literal["text", "integer", "number", "truth"]
Columns = Mapping[str, Kind]

STATE: Columns = {"run_key": "text", "status": "text", "error": "text"}
PROVENANCE: Columns = {
    "hpcosim": "text",
    "python": "text",
    "git_commit": "text",
    "policy_name": "text",
    "workload_sha256": "text",
}
BREAKDOWN: Columns = {"breakdown": "text", "class": "text"}


class Rows(NamedTuple):
    """A table.

    Attributes:
        rows: its rows; they have all columns.
    """

    columns: Columns
    rows: Sequence[Row]


def run_rows(plan: Plan, results: Mapping[str, RunResult], metrics: Columns) -> Rows:
    """Return the table with a row per run, in the order of the experiment."""
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


Format = Literal["parquet", "csv"]


def write_table(path: Path, table: Rows, about: Mapping[str, str]) -> None:
    """Write a table.

    Args:
        path: the file; its suffix is the format, `.parquet` or `.csv`.
        about: metadata of a Parquet file.

    Raises:
        StoreError: the file cannot be written.
    """
    write_whole(path, _csv(table) if path.suffix == ".csv" else _parquet(table, about))


def _csv(table: Rows) -> bytes:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(table.columns)
    lines.writerows([_cell(row[name]) for name in table.columns] for row in table.rows)
    return text.getvalue().encode()


def _cell(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _parquet(table: Rows, about: Mapping[str, str]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: [row[name] for row in table.rows] for name in table.columns}
    sink = pa.BufferOutputStream()
    content = pa.table(columns, schema=schema_of(table.columns, about))
    pq.write_table(content, sink, compression="zstd")
    written: bytes = sink.getvalue().to_pybytes()
    return written


def schema_of(columns: Columns, about: Mapping[str, str]) -> pa.Schema:
    """Return the schema of a Parquet file."""
    import pyarrow as pa

    types = {
        "text": pa.string(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "truth": pa.bool_(),
    }
    return pa.schema({name: types[kind] for name, kind in columns.items()}, metadata=dict(about))


def write_jobs(
    path: Path,
    plan: Plan,
    results: Mapping[str, RunResult],
    store: RunStore,
    about: Mapping[str, str],
) -> None:
    """Write the table of the jobs of all runs, with a row group per run.

    One run at a time is in memory.

    Args:
        path: the file; its suffix is the format, `.parquet` or `.csv`.
        results: the results by key; failed runs have no rows.
        store: has the table of each run.
        about: metadata of a Parquet file.

    Raises:
        StoreError: a file cannot be read or written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from hpcosim_experiments.runs.job_rows import SCHEMA

    axes = schema_of(axis_columns(plan), about)
    schema = pa.schema([*axes, *SCHEMA], metadata=dict(about))
    with draft_of(path) as draft, _writer(draft, schema, path.suffix) as writer:
        for run in plan.runs:
            if results[run.key].status != "ok":
                continue
            jobs = pq.read_table(store.jobs_path(run.key))
            labels = [
                pa.repeat(pa.scalar(run.labels[field.name], field.type), len(jobs))
                for field in axes
            ]
            writer.write_table(pa.table([*labels, *jobs.columns], schema=schema))


@contextmanager
def _writer(path: Path, schema: pa.Schema, suffix: str) -> Iterator[pq.ParquetWriter]:
    import pyarrow.csv
    import pyarrow.parquet

    if suffix == ".csv":
        with pyarrow.csv.CSVWriter(path, schema) as writer:
            yield writer
    else:
        with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
            yield writer


def axis_columns(plan: Plan) -> dict[str, Kind]:
    """Return the columns of the axes."""
    return {
        name: _kind_of([value.label for value in axis.values]) for name, axis in plan.axes.items()
    }


def check_names(plan: Plan, metrics: Columns) -> None:
    """Check that no axis has the name of another column.

    Raises:
        ExperimentFileError: one has; has the field.
    """
    taken = {*STATE, *metrics, *PROVENANCE, *BREAKDOWN}
    if plan.experiment.jobs:
        taken |= {column.name for column in JOBS.columns}
    for name in plan.axes:
        if name in taken:
            what = f"the results have a column {name!r}; give the axis another name and a path"
            raise ExperimentFileError(what, field=key_in("$.axes", name))


def metric_columns(plan: Plan) -> dict[str, Kind]:
    """Return the columns of the metrics: those of simulations without jobs, and of overruns.

    Raises:
        ScenarioError: a price or carbon intensity cannot be read.
    """
    one_of_each = {run.scenario.economics is None: run.scenario for run in reversed(plan.runs)}
    columns: dict[str, Kind] = {}
    for scenario in one_of_each.values():
        rates = UNKNOWN
        if scenario.economics is not None:
            rates = load_economics(scenario.economics, Path()).rates
        opened = open_scenario(scenario, job_table(job_id=[]), "", rates=rates)
        for name, value in metrics_of(opened.simulation.record(), opened.run).items():
            columns[name] = _kind(value)
    columns |= dict.fromkeys(OVERRUNS, "integer")
    if any(run.scenario.scheduler.explain for run in plan.runs):
        leads_s = np.array([longest_s for _, longest_s in LEAD_CLASSES_S.values()])
        one_of_each_class = errors_by_lead(np.zeros(len(leads_s)), leads_s)
        columns |= {name: _kind(value) for name, value in one_of_each_class.items()}
    return columns


def _kind(value: float) -> Kind:
    return "integer" if isinstance(value, int) else "number"


def _kind_of(labels: Sequence[Label]) -> Kind:
    if all(isinstance(label, bool) for label in labels):
        return "truth"
    if all(isinstance(label, int) for label in labels):
        return "integer"
    return "text" if any(isinstance(label, str) for label in labels) else "number"
