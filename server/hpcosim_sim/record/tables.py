"""The CSV files of a results folder: definitions of their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from hpcosim_sim.record.recording import STATES
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_sim.record.table_rows import (
    drain_lines,
    explanation_lines,
    job_rows,
    node_rows,
    run_rows,
    schedule_rows,
)
from hpcosim_workloads.table import PLACEMENTS


class Column(NamedTuple):
    """A column of a CSV file.

    Attributes:
        name: name in the header line.
        type: format of a cell: `integer`, `number`, `text`, or the text of `NODES`, `NODE_LIST` or
            `COUNTS`.
        meaning: definition with unit, and when a cell is empty.
    """

    name: str
    type: str
    meaning: str


class Table(NamedTuple):
    """A CSV file.

    Attributes:
        file: file name.
        rows: meaning and order of the rows.
        columns: columns in file order.
        rows_of: yields the rows as text in pieces of any length, with cells in the order of
            `columns`.
    """

    file: str
    rows: str
    columns: tuple[Column, ...]
    rows_of: Callable[[RunRecord], Iterator[str]]

    def text(self, record: RunRecord) -> Iterator[str]:
        """Yield the text of the file in pieces, header line first."""
        yield ",".join(column.name for column in self.columns) + "\n"
        yield from self.rows_of(record)


INTEGER, NUMBER, TEXT = "integer", "number", "text"
NODES = "intervals of node numbers, such as `0-3 7`"
NODE_LIST = "node numbers, separated by spaces"
COUNTS = "integers, separated by spaces"


JOBS = Table(
    "jobs.csv",
    "one row for each submitted job, in order of submission",
    (
        Column("job_id", INTEGER, "job id from the workload or from the `submit_job` decision"),
        Column("submit_s", NUMBER, "submission time, s"),
        Column(
            "start_s",
            NUMBER,
            "start time of the last run, s; empty if the job has not started, or waits after a "
            "requeue",
        ),
        Column(
            "end_s",
            NUMBER,
            "time at which the job ended or was rejected, s; empty if the job is not over",
        ),
        Column(
            "state",
            TEXT,
            f"state at the end of the run, one of {', '.join(f'`{state}`' for state in STATES)}; "
            "`waiting` includes allocated jobs, `running` includes suspended jobs, `timeout` means "
            "killed at the requested time",
        ),
        Column("cores", INTEGER, "number of requested cores"),
        Column("nodes", NODES, "nodes of the last run; empty if `start_s` is empty"),
        Column(
            "energy_j",
            NUMBER,
            "energy attributed to all runs of the job, J: the integral of the dynamic power of its "
            "tasks and of its share of the static power of their processors; jobs on one processor "
            "share its static power equally (Lopez, Stafford, Bosque 2025, equation 1)",
        ),
        Column("reason", TEXT, "why the job did not run, if the server or the scheduler stated it"),
        Column("requested_s", NUMBER, "requested run time, s"),
        Column("placement", TEXT, f"one of {', '.join(f'`{name}`' for name in PLACEMENTS)}"),
        Column("user", TEXT, "name of the user who submitted the job; empty if unknown"),
        Column("group", TEXT, "name of the user's group; empty if unknown"),
        Column(
            "partition",
            TEXT,
            "names of the partitions that the job was submitted to, separated by commas; empty if "
            "unknown",
        ),
        Column("account", TEXT, "name of the job's account; empty if unknown"),
        Column("qos", TEXT, "name of the job's quality of service; empty if unknown"),
        Column("name", TEXT, "name of the job; empty: it has none"),
        Column("runs", INTEGER, "number of runs of the job; above 1 if it was requeued"),
        Column("suspended_s", NUMBER, "time for which the job was suspended, in all runs, s"),
        Column(
            "lost_core_s",
            NUMBER,
            "cores * run time that was lost in requeues, in failures of nodes and by preemption, "
            "core-seconds: the part of the run since its last checkpoint, or all of it",
        ),
    ),
    job_rows,
)
NODE_STATES_OVER_TIME = Table(
    "nodes.csv",
    "one row for each period in which nodes keep their state, tasks and power, in order of "
    "`end_s`; the sum of `power_w` * number of nodes * (`end_s` - `start_s`) over all rows is "
    "`energy_j` of `metrics.json`",
    (
        Column("start_s", NUMBER, "begin of the period, s"),
        Column("end_s", NUMBER, "end of the period or of the run, s"),
        Column("nodes", NODES, "nodes with this state and power"),
        Column(
            "state",
            TEXT,
            "one of `computing` (on, with at least one task), `idle` (on, without a task), "
            "`sleeping`, `switching_on`, `switching_off`, `down` (failed)",
        ),
        Column("power_w", NUMBER, "power of each of the nodes, W"),
    ),
    node_rows,
)
SCHEDULE = Table(
    "schedule.csv",
    "one row for each start of a run of a job, in chronological order, then one row for each job "
    "that a decision rejected; `--scheduler scripted:FILE` replays the file",
    (
        Column("job_id", INTEGER, "job id"),
        Column("start_s", NUMBER, "start time, s; empty if the job was rejected"),
        Column("nodes", NODE_LIST, "allocated nodes, in the order of the allocation"),
        Column("tasks", COUNTS, "number of tasks on each of `nodes`"),
    ),
    schedule_rows,
)
RUNS = Table(
    "runs.csv",
    "one row for each period in which the tasks of a job occupied its cores, in chronological "
    "order of the begins: a run that was never suspended has one row; the file is only there if a "
    "job had more than one run or was suspended",
    (
        Column("job_id", INTEGER, "job id"),
        Column("run", INTEGER, "number of the run of the job, from 1"),
        Column("start_s", NUMBER, "begin of the period, s"),
        Column("end_s", NUMBER, "end of the period, s; empty if it has not ended"),
        Column(
            "end",
            TEXT,
            "why the period ended: `suspended`, `requeued` (by a decision or a user), "
            "`requeued_node_failed` (a node failed), `suspended_requeued` or "
            "`suspended_requeued_node_failed` (the job was suspended, and requeued later), or the "
            "final state of the job; empty if it has not ended. The last row of a job that ended "
            "while it was suspended has `suspended`. A requeue of a job whose nodes were being "
            "switched on has no row",
        ),
        Column("nodes", NODE_LIST, "allocated nodes, in the order of the allocation"),
        Column("tasks", COUNTS, "number of tasks on each of `nodes`"),
    ),
    run_rows,
)
DRAINS = Table(
    "drains.csv",
    "one row for each begin or end of a drain of a node, in chronological order; a drained node "
    "accepts no new jobs; the file is only there if a node was drained",
    (
        Column("time_s", NUMBER, "time of the change, s"),
        Column("node", INTEGER, "node number"),
        Column("change", TEXT, "`drained`, or `repaired`: the node accepts jobs again"),
    ),
    drain_lines,
)
EXPLANATIONS = Table(
    "explanations.csv",
    "one row for each explanation of the scheduler why a job waits, in chronological order; an "
    "explanation holds until the next one of the job or until the job starts or is over; the file "
    "is only there if the scheduler sent explanations, as `--explain` asks it to",
    (
        Column("job_id", INTEGER, "job id"),
        Column("time_s", NUMBER, "time of the explanation, s"),
        Column("reason", TEXT, "name of the reason; most are those of Slurm, such as `Resources`"),
        Column("expected_start_s", NUMBER, "start that the scheduler expects, s; empty: unknown"),
    ),
    explanation_lines,
)
TABLES = (JOBS, NODE_STATES_OVER_TIME, SCHEDULE, RUNS, DRAINS, EXPLANATIONS)


def tables_of(record: RunRecord) -> Iterator[Table]:
    """Yield the tables of a run: those after `SCHEDULE` only if there is something in them."""
    recording = record.recording
    yield from (JOBS, NODE_STATES_OVER_TIME, SCHEDULE)
    if not recording.has_single_runs:
        yield RUNS
    if len(recording.drained):
        yield DRAINS
    if len(recording.explanations):
        yield EXPLANATIONS
