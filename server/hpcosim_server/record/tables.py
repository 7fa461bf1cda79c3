"""The CSV files of a results folder: definitions of their columns, and their rows."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from hpcosim_server.record.periods import PERIOD_ENDS, Periods
from hpcosim_server.record.recording import STATES
from hpcosim_server.record.run_record import RunRecord
from hpcosim_server.record.timeline import node_spans
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
        lines_of: yields the rows as text, with cells in the order of `columns`.
    """

    file: str
    rows: str
    columns: tuple[Column, ...]
    lines_of: Callable[[RunRecord], Iterator[str]]

    def lines(self, record: RunRecord) -> Iterator[str]:
        """Yield the lines of the file, header line first."""
        yield ",".join(column.name for column in self.columns) + "\n"
        yield from self.lines_of(record)


INTEGER, NUMBER, TEXT = "integer", "number", "text"
DRAIN_CHANGES = ("repaired", "drained")
NODES = "intervals of node numbers, such as `0-3 7`"
NODE_LIST = "node numbers, separated by spaces"
COUNTS = "integers, separated by spaces"


def intervals(numbers: Iterable[int]) -> str:
    """Return distinct integers as sorted intervals, such as `0-3 7`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _jobs(record: RunRecord) -> Iterator[str]:
    recording, energies_j = record.recording, record.job_energies_j
    suspended_s = recording.suspended_until(record.end_s)
    for row in range(len(recording)):
        owner = recording.owners[row]
        yield (
            f"{recording.job_id[row]},{recording.submit_s[row]},"
            f"{_time(recording.start_s[row])},{_time(recording.end_s[row])},"
            f"{STATES[recording.state[row]]},{recording.cores[row]},"
            f"{intervals(recording.nodes_of(row))},{energies_j[row]},"
            f"{_text(recording.reasons.get(row, ''))},"
            f"{recording.requested_s[row]},{PLACEMENTS[recording.placement[row]]},"
            f"{_text(owner.user)},{_text(owner.group)},{_text(owner.partition)},"
            f"{_text(owner.account)},{_text(owner.qos)},"
            f"{_text(recording.names.get(row, ''))},{recording.runs_of(row)},"
            f"{suspended_s.get(row, 0.0)},{recording.lost_core_s.get(row, 0.0)}\n"
        )


def _nodes(record: RunRecord) -> Iterator[str]:
    for span in node_spans(record):
        nodes = intervals(span.nodes)
        yield f"{span.start_s},{span.end_s},{nodes},{span.state},{span.power_w}\n"


def _schedule(record: RunRecord) -> Iterator[str]:
    recording, periods = record.recording, record.recording.periods
    runs = array("i", bytes(4 * len(recording)))  # of each job so far
    for period, row in enumerate(periods.row):
        if runs[row] < periods.run[period]:
            runs[row] += 1
            nodes, tasks = _places(periods, period)
            yield f"{recording.job_id[row]},{periods.start_s[period]},{nodes},{tasks}\n"
    for row in range(len(recording)):
        rejected = STATES[recording.state[row]] == "rejected"
        by_server = row in recording.reasons and row not in recording.declined
        if rejected and not by_server:
            yield f"{recording.job_id[row]},,,\n"


def _runs(record: RunRecord) -> Iterator[str]:
    job_id, periods = record.recording.job_id, record.recording.periods
    for period, row in enumerate(periods.row):
        nodes, tasks = _places(periods, period)
        yield (
            f"{job_id[row]},{periods.run[period]},{periods.start_s[period]},"
            f"{_time(periods.end_s[period])},{PERIOD_ENDS[periods.why[period]]},{nodes},{tasks}\n"
        )


def _places(periods: Periods, period: int) -> tuple[str, str]:
    """Return the nodes and the numbers of tasks of a computing period as cells."""
    nodes, tasks = periods.nodes_of(period), periods.tasks_of(period)
    return " ".join(map(str, nodes)), " ".join(map(str, tasks))


def _drains(record: RunRecord) -> Iterator[str]:
    of = record.recording
    for time_s, node, drained in zip(of.drain_s, of.drain_node, of.drained, strict=True):
        yield f"{time_s},{node},{DRAIN_CHANGES[drained]}\n"


def _explanations(record: RunRecord) -> Iterator[str]:
    job_id, said = record.recording.job_id, record.recording.explanations
    for row, time_s, code, expected_s in zip(
        said.row, said.time_s, said.reason, said.expected_start_s, strict=True
    ):
        yield f"{job_id[row]},{time_s},{said.reasons[code]},{_time(expected_s)}\n"


def _text(name: str) -> str:
    """Return a cell with a name, quoted where CSV requires it."""
    if "," in name or '"' in name or "\n" in name or "\r" in name:
        return '"' + name.replace('"', '""') + '"'
    return name


def _time(time_s: float) -> str:
    return "" if math.isnan(time_s) else str(time_s)


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
    _jobs,
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
    _nodes,
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
    _schedule,
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
    _runs,
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
    _drains,
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
    _explanations,
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
