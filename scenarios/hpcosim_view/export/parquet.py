"""A run as Parquet tables with typed columns, for data frames and SQL.

The metadata of each column has its `unit`, if it has one, and its `meaning`. Unknown values are
null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcosim_sim.physics.power import NODE_STATES
from hpcosim_sim.record.periods import PERIOD_ENDS
from hpcosim_sim.record.recording import POWER_STATES
from hpcosim_view.drafts import writing
from hpcosim_view.errors import ExportError
from hpcosim_view.run.extracts import (
    Floats,
    Placements,
    by_job,
    clean,
    job_changes,
    last_period_of,
    named,
    nodes_of,
    starts_of,
    states_of,
)
from hpcosim_view.run.frame import Frame, periods_of
from hpcosim_workloads.table import PLACEMENTS

if TYPE_CHECKING:
    import pyarrow as pa

TEXT, INTEGER, NUMBER, NUMBERS = "text", "integer", "number", "integers"


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        values: the values; None or NaN: unknown.
        type: `TEXT` (dictionary-encoded), `INTEGER` (int64), `NUMBER` (float64) or `NUMBERS` (a
            list of int32).
        unit: unit; empty: none.
        meaning: definition.
    """

    values: Sequence[Any] | Floats
    type: str
    unit: str
    meaning: str


Columns = Mapping[str, Column]


def write_parquet(frame: Frame, files: Mapping[str, Path]) -> None:
    """Write the tables of a run.

    Raises:
        ExportError: pyarrow is not installed.
    """
    about = {key: clean(frame.about[key]) for key in ("scenario", "scheduler", "seed")}
    for name, path in files.items():
        table = arrow_table(TABLES[name](frame), about)
        import pyarrow.parquet as pq

        with writing(path):
            pq.write_table(table, path, compression="zstd")


def arrow_table(columns: Columns, metadata: Mapping[str, str] | None = None) -> pa.Table:
    """Return a table for pyarrow.

    Args:
        metadata: metadata of the table; None: none.

    Raises:
        ExportError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise ExportError(
            "an Arrow table needs the package pyarrow: pip install 'hpcosim[experiment]'"
        ) from None
    schema = pa.schema([_field(*each) for each in columns.items()], metadata=metadata)
    arrays = [
        pa.array(column.values, schema.field(key).type, from_pandas=True)
        for key, column in columns.items()
    ]
    return pa.table(arrays, schema=schema)


def _field(name: str, column: Column) -> pa.Field:
    import pyarrow as pa

    types = {
        TEXT: pa.dictionary(pa.int32(), pa.string()),
        INTEGER: pa.int64(),
        NUMBER: pa.float64(),
        NUMBERS: pa.list_(pa.int32()),
    }
    unit = {"unit": column.unit} if column.unit else {}
    return pa.field(name, types[column.type], metadata={**unit, "meaning": column.meaning})


def _jobs(frame: Frame) -> Columns:
    columns = frame.columns
    periods = periods_of(frame)
    last = last_period_of(periods)
    start_s = starts_of(periods, last)
    placements = Placements(frame)
    nodes: list[list[int] | None] = [None] * len(start_s)
    held: list[int | None] = [None] * len(start_s)
    for job in np.flatnonzero(last >= 0).tolist():
        start = int(last[job])
        nodes[job] = [place.node for place in placements.of(start)]
        held[job] = placements.cores_of(start)
    rules = [PLACEMENTS[code] for code in columns["job.placement"].tolist()]
    submit_s = columns["job.submit_s"]
    return {
        "job_id": Column(columns["job.id"], INTEGER, "", "job id"),
        "submit_s": Column(submit_s, NUMBER, "s", "submission time"),
        "start_s": Column(start_s, NUMBER, "s", "start of the last run; null: none"),
        "end_s": Column(
            by_job(frame, "end.job", "end.time_s"), NUMBER, "s", "end or rejection; null: not over"
        ),
        "wait_s": Column(start_s - submit_s, NUMBER, "s", "start minus submission"),
        "requested_s": Column(columns["job.requested_s"], NUMBER, "s", "requested run time"),
        "state": Column(states_of(frame), TEXT, "", "state at the end of the run"),
        "cores": Column(columns["job.cores"], INTEGER, "", "requested cores"),
        "cores_held": Column(held, INTEGER, "", "cores that the job holds; null: not started"),
        "nodes": Column(nodes, NUMBERS, "", "allocated nodes; null: not started"),
        "placement": Column(rules, TEXT, "", "how the tasks are distributed"),
        "user": Column(named(frame, "users", "job.user"), TEXT, "", "user"),
        "group": Column(named(frame, "groups", "job.group"), TEXT, "", "group"),
        "partition": Column(named(frame, "partitions", "job.partition"), TEXT, "", "partition"),
        "energy_j": Column(
            by_job(frame, "end.job", "end.energy_j"), NUMBER, "J", "energy attributed to the job"
        ),
    }


def _periods(frame: Frame) -> Columns:
    columns, periods = frame.columns, periods_of(frame)
    job, placements = columns["start.job"].astype(np.int64), Placements(frame)
    over = (periods.why == 0) & np.isfinite(periods.end_s)
    states = states_of(frame)
    ends = [
        states[row] if is_over else PERIOD_ENDS[why] or None
        for row, is_over, why in zip(job.tolist(), over, periods.why.tolist(), strict=True)
    ]
    nodes = [[place.node for place in placements.of(start)] for start in range(len(job))]
    held = [placements.cores_of(start) for start in range(len(job))]
    begin_s = columns["start.time_s"]
    return {
        "job_id": Column(columns["job.id"][job], INTEGER, "", "job id"),
        "run_start_s": Column(periods.run_start_s, NUMBER, "s", "start of the run of the job"),
        "start_s": Column(begin_s, NUMBER, "s", "begin of the computing period"),
        "end_s": Column(periods.end_s, NUMBER, "s", "end of the period; null: it lasts"),
        "end": Column(ends, TEXT, "", "why it ended: the final state, suspended or requeued"),
        "cores_held": Column(held, INTEGER, "", "cores that the job held"),
        "nodes": Column(nodes, NUMBERS, "", "allocated nodes"),
    }


def _nodes(frame: Frame) -> Columns:
    nodes, rows = nodes_of(frame), list(_node_spans(frame))
    node, start_s, end_s, state = zip(*rows, strict=True) if rows else ((), (), (), ())
    return {
        "node": Column(node, INTEGER, "", "node number"),
        "group": Column([nodes[each].group for each in node], TEXT, "", "name of its group"),
        "cores": Column([nodes[each].cores for each in node], INTEGER, "", "cores of the node"),
        "start_s": Column(start_s, NUMBER, "s", "begin of the period"),
        "end_s": Column(end_s, NUMBER, "s", "end of the period or of the run"),
        "state": Column(state, TEXT, "", f"one of {', '.join(NODE_STATES)}"),
    }


def _node_spans(frame: Frame) -> Iterator[tuple[int, float, float, str]]:
    """Yield node, begin, end and state of each period in which a node keeps its state."""
    count, start_s = len(nodes_of(frame)), frame.about["start_s"]
    running, power = [0] * count, ["on"] * count
    since: list[tuple[float, str]] = [(start_s, "idle")] * count
    steps = merge(_job_steps(frame), _power_steps(frame), key=itemgetter(0))
    for time_s, together in groupby(steps, key=itemgetter(0)):
        touched = set()
        for _, node, started, state in together:
            running[node] += started
            power[node] = state or power[node]
            touched.add(node)
        for node in sorted(touched):
            since_s, before = since[node]
            after = _state(power[node], running[node])
            if after != before:
                if time_s > since_s:
                    yield node, since_s, time_s, before
                since[node] = time_s, after
    for node, (since_s, state) in enumerate(since):
        if since_s < frame.about["now_s"]:
            yield node, since_s, frame.about["now_s"], state


def _state(power: str, running: int) -> str:
    if power != "on":
        return power
    return "computing" if running else "idle"


def _job_steps(frame: Frame) -> Iterator[tuple[float, int, int, str]]:
    """Yield time, node, and 1 for the start of a job on the node, -1 for its end."""
    placements = Placements(frame)
    for change in job_changes(frame):
        for place in placements.of(change.start):
            yield change.time_s, place.node, 1 if change.starts else -1, ""


def _power_steps(frame: Frame) -> Iterator[tuple[float, int, int, str]]:
    """Yield time, node, 0 and the new power state of the node."""
    columns = [frame.columns[f"power.{name}"].tolist() for name in ("time_s", "node", "state")]
    for time_s, node, state in zip(*columns, strict=True):
        yield time_s, node, 0, POWER_STATES[state]


def _power(frame: Frame) -> Columns:
    states = [NODE_STATES[code] for code in frame.columns["watts.state"].tolist()]
    power_w = frame.columns["watts.power_w"]
    return {
        "time_s": Column(frame.columns["watts.time_s"], NUMBER, "s", "time of the change"),
        "state": Column(states, TEXT, "", f"one of {', '.join(NODE_STATES)}"),
        "power_w": Column(
            power_w, NUMBER, "W", "power of all nodes in this state from this time on"
        ),
    }


def _explanations(frame: Frame) -> Columns:
    columns = frame.columns
    expected_s = columns["explain.expected_start_s"]
    return {
        "job_id": Column(
            columns["job.id"][columns["explain.job"].astype(np.int64)], INTEGER, "", "job id"
        ),
        "time_s": Column(columns["explain.time_s"], NUMBER, "s", "time of the explanation"),
        "reason": Column(
            named(frame, "reasons", "explain.reason"), TEXT, "", "why the job waits then"
        ),
        "expected_start_s": Column(
            expected_s, NUMBER, "s", "start that the scheduler expects; null: none"
        ),
    }


TABLES: Mapping[str, Callable[[Frame], Columns]] = {
    "jobs.parquet": _jobs,
    "runs.parquet": _periods,
    "nodes.parquet": _nodes,
    "power.parquet": _power,
    "explanations.parquet": _explanations,
}
"""Returns the columns of a table, by file name."""
