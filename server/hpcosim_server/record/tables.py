"""The CSV files of a results folder: what each column means, and the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from hpcosim_server.record.recording import STATES
from hpcosim_server.record.run_record import RunRecord
from hpcosim_server.record.timeline import node_spans


class Column(NamedTuple):
    """A column of a file.

    Attributes:
        name: as in the first line of the file.
        type: what a cell holds: `integer`, `number`, `text`, or what `NODES` and `COUNTS` say.
        meaning: with its unit; says when a cell is empty.
    """

    name: str
    type: str
    meaning: str


class Table(NamedTuple):
    """A file.

    Attributes:
        file: its name.
        rows: what its rows are, and their order.
        columns: in their order.
        lines_of: yields its rows as text, cells in the order of `columns`.
    """

    file: str
    rows: str
    columns: tuple[Column, ...]
    lines_of: Callable[[RunRecord], Iterator[str]]

    def lines(self, record: RunRecord) -> Iterator[str]:
        """Yield the lines of the file, the names of its columns first."""
        yield ",".join(column.name for column in self.columns) + "\n"
        yield from self.lines_of(record)


INTEGER, NUMBER, TEXT = "integer", "number", "text"
NODES = "intervals of node numbers, such as `0-3 7`"
NODE_LIST = "node numbers, separated by spaces"
COUNTS = "integers, separated by spaces"


def intervals(numbers: Iterable[int]) -> str:
    """Return numbers as a set of intervals: `0-3 7`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _jobs(record: RunRecord) -> Iterator[str]:
    recording, energies_j = record.recording, record.job_energies_j
    for row in range(len(recording)):
        yield (
            f"{recording.job_id[row]},{recording.submit_s[row]},"
            f"{_time(recording.start_s[row])},{_time(recording.end_s[row])},"
            f"{STATES[recording.state[row]]},{recording.cores[row]},"
            f"{intervals(recording.nodes_of(row))},{energies_j[row]},"
            f"{recording.reasons.get(row, '')}\n"
        )


def _nodes(record: RunRecord) -> Iterator[str]:
    for span in node_spans(record):
        nodes = intervals(span.nodes)
        yield f"{span.start_s},{span.end_s},{nodes},{span.state},{span.power_w}\n"


def _schedule(record: RunRecord) -> Iterator[str]:
    recording = record.recording
    for row in recording.changes:
        if row >= 0:
            nodes, tasks = recording.nodes_of(row), recording.tasks_of(row)
            places, counts = " ".join(map(str, nodes)), " ".join(map(str, tasks))
            yield f"{recording.job_id[row]},{recording.start_s[row]},{places},{counts}\n"
    for row in range(len(recording)):
        by_decision = STATES[recording.state[row]] == "rejected" and row not in recording.reasons
        if by_decision:
            yield f"{recording.job_id[row]},,,\n"


def _time(time_s: float) -> str:
    return "" if math.isnan(time_s) else str(time_s)


JOBS = Table(
    "jobs.csv",
    "a row for each job, in order of submission",
    (
        Column("job_id", INTEGER, "number of the job"),
        Column("submit_s", NUMBER, "simulated second of its submission"),
        Column("start_s", NUMBER, "simulated second of its start; empty: it has not started"),
        Column("end_s", NUMBER, "simulated second at which it was over; empty: it is not"),
        Column("state", TEXT, f"one of {', '.join(f'`{state}`' for state in STATES)}"),
        Column("cores", INTEGER, "cores it asked for"),
        Column("nodes", NODES, "nodes it was given; empty: it has not started"),
        Column(
            "energy_j",
            NUMBER,
            "energy attributed to it, J: the dynamic power of its tasks, and its part of the "
            "static power of their processors",
        ),
        Column("reason", TEXT, "why it was rejected at its submission; empty: it was not"),
    ),
    _jobs,
)
NODE_STATES_OVER_TIME = Table(
    "nodes.csv",
    "a row for each time that nodes spent in one state, by the second at which they left it; the "
    "integral of the power is the `energy_j` of `metrics.json`",
    (
        Column("start_s", NUMBER, "simulated second at which the nodes entered the state"),
        Column("end_s", NUMBER, "simulated second at which they left it, or the run ended"),
        Column("nodes", NODES, "the nodes"),
        Column(
            "state",
            TEXT,
            "one of `computing`, `idle`, `sleeping`, `switching_on`, `switching_off`",
        ),
        Column("power_w", NUMBER, "power of each of the nodes, W"),
    ),
    _nodes,
)
SCHEDULE = Table(
    "schedule.csv",
    "what `--scheduler scripted:FILE` replays: a row for each start of a job, in order, then one "
    "for each job that a decision rejected",
    (
        Column("job_id", INTEGER, "number of the job"),
        Column("start_s", NUMBER, "simulated second of its start; empty: it was rejected"),
        Column("nodes", NODE_LIST, "nodes it was given, in the order of the allocation"),
        Column("tasks", COUNTS, "tasks on each of `nodes`"),
    ),
    _schedule,
)
TABLES = (JOBS, NODE_STATES_OVER_TIME, SCHEDULE)
