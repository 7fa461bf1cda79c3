"""The CSV files of a results folder: definitions of their columns, and their rows as text."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hpcosim_sim.physics.power import GroupMeter
from hpcosim_sim.record import texts
from hpcosim_sim.record.periods import PERIOD_ENDS, Periods
from hpcosim_sim.record.recording import POWER_STATES, STATES, Recording
from hpcosim_sim.record.run_record import RunRecord, node_spans
from hpcosim_workloads.table import PLACEMENTS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
T = TypeVar("T", bound=np.generic)

MAX_INSTANTS = 60_000
MAX_CHANGES = 500_000
"""Numbers of instants and of changes of nodes in a portion; an instant is never divided."""

ON = POWER_STATES.index("on")


NodeNumbers = NDArray[np.integer]


class SpanColumns(NamedTuple):
    """Consecutive spans of `node_spans` as columns, computed for many nodes at once.

    Attributes:
        start_s: float64[spans], begin, s.
        end_s: float64[spans], end, s.
        level: int64[spans], level of the nodes; see `Levels`.
        first: int64[spans], index of the first node of each span in `node`.
        node: int64[nodes of all spans], node numbers, ascending in each span.
    """

    start_s: Floats
    end_s: Floats
    level: Ints
    first: Ints
    node: Ints


class Levels:
    """Codes of the levels of nodes: kind, power state and number of tasks."""

    def __init__(self, record: RunRecord) -> None:
        self._tasks = max(record.platform.cores_by_node()) + 1
        groups = record.platform.nodes
        self._kind = np.repeat(np.arange(len(groups)), [group.count for group in groups])

    def codes(self, node: Ints, power: Ints, tasks: Ints) -> Ints:
        """Return the levels of nodes in power states, indices into `POWER_STATES`, with tasks."""
        return (self._kind[node] * len(POWER_STATES) + power) * self._tasks + tasks

    def parts(self, level: int) -> tuple[int, int, int]:
        """Return the kind, the index of the power state and the number of tasks of a level."""
        rest, tasks = divmod(level, self._tasks)
        kind, power = divmod(rest, len(POWER_STATES))
        return kind, power, tasks


class _Changes(NamedTuple):
    """Changes of nodes, in chronological order.

    Attributes:
        power: the new power state, an index into `POWER_STATES`; -1: no change.
    """

    instant: Ints
    node: Ints
    tasks: Ints
    power: Ints


def can_be_columns(record: RunRecord) -> bool:
    """Return whether `span_columns` is for this run."""
    return not record.recording.kind_at and all(
        len(group.processors) == 1 for group in record.platform.nodes
    )


def span_columns(record: RunRecord, levels: Levels) -> Iterator[SpanColumns]:
    """Yield the spans of all nodes of a run, in the order of `node_spans`.

    Args:
        record: a run for which `can_be_columns` is true.
    """
    nodes = np.arange(record.platform.node_count)
    tasks, power = np.zeros(len(nodes), np.int64), np.full(len(nodes), ON)
    since_s = np.full(len(nodes), float(record.start_s))
    level = levels.codes(nodes, power, tasks)
    for times_s, changes in _portions(record):
        at = _last_of_instants(changes)
        node, instant = at.node, at.instant
        # Tasks and power after each instant with changes of the node.
        at_tasks = at.tasks + tasks[node]
        at_power = np.where(at.power >= 0, at.power, power[node])
        last = np.append(node[1:] != node[:-1], True)
        tasks[node[last]], power[node[last]] = at_tasks[last], at_power[last]
        at_level = levels.codes(node, at_power, at_tasks)
        changed = at_level != _before(node, at_level, level)
        node, instant, at_level = node[changed], instant[changed], at_level[changed]
        at_s = times_s[instant]
        begin_s, before = _before(node, at_s, since_s), _before(node, at_level, level)
        last = np.append(node[1:] != node[:-1], True)[: len(node)]
        since_s[node[last]], level[node[last]] = at_s[last], at_level[last]
        kept = np.flatnonzero(at_s > begin_s)
        kept = kept[np.argsort(instant[kept].astype(np.uint16), kind="stable")]
        yield _grouped(at_s[kept], begin_s[kept], before[kept], node[kept])
    kept = np.flatnonzero(since_s < record.end_s)
    end_s = np.full(len(kept), float(record.end_s))
    yield _grouped(end_s, since_s[kept], level[kept], kept)


def _portions(record: RunRecord) -> Iterator[tuple[Floats, _Changes]]:
    """Yield the changes before the end, in portions, with the times of their instants."""
    of, periods = record.recording, record.recording.periods
    codes, power_s = np.array(of.changes), np.array(of.power_s)
    starts = codes >= 0
    period = np.where(starts, codes, ~codes)
    time_s = np.where(starts, np.array(periods.start_s)[period], np.array(periods.end_s)[period])
    instants_s = np.sort(np.concatenate([time_s, power_s]))
    instants_s = instants_s[np.append(True, instants_s[1:] != instants_s[:-1])[: len(instants_s)]]
    instants_s = instants_s[instants_s < record.end_s]
    instant = np.searchsorted(instants_s, time_s)
    power_at = np.searchsorted(instants_s, power_s)
    first_place, places = np.array(periods.first_place), np.array(periods.places, np.int64)
    nodes, tasks = np.array(periods.nodes), np.array(periods.tasks)
    power_node, power_state = np.array(of.power_node), np.array(of.power_state)
    counts = np.bincount(instant, places[period], len(instants_s) + 1)
    counts += np.bincount(power_at, minlength=len(instants_s) + 1)
    for first, last in portions(counts[:-1], MAX_INSTANTS, MAX_CHANGES):
        some = slice(*np.searchsorted(instant, (first, last)))
        powers = slice(*np.searchsorted(power_at, (first, last)))
        each = places[period[some]]
        # Index of each node of the periods in `nodes` and `tasks`.
        place = np.repeat(first_place[period[some]] - (np.cumsum(each) - each), each)
        place += np.arange(len(place))
        sign = np.repeat(np.where(starts[some], 1, -1), each)
        none = len(power_node[powers])
        yield (
            instants_s[first:last],
            _Changes(
                np.concatenate([np.repeat(instant[some], each), power_at[powers]]) - first,
                np.concatenate([nodes[place], power_node[powers]]).astype(np.int64),
                np.append(sign * tasks[place], np.zeros(none, np.int64)),
                np.append(np.full(len(place), -1), power_state[powers]),
            ),
        )


def _last_of_instants(changes: _Changes) -> _Changes:
    """Return what the changes of each node and instant amount to, by node and then by instant."""
    by_node = changes.node
    if len(by_node) and by_node.max() < 2**16:
        by_node = by_node.astype(np.uint16)  # numpy sorts 16 bits in linear time
    if (changes.power >= 0).any():
        by_time = np.argsort(changes.instant, kind="stable")
        order = by_time[np.argsort(by_node[by_time], kind="stable")]
    else:
        order = np.argsort(by_node, kind="stable")
    instant, node, tasks, power = (column[order] for column in changes)
    others = node[1:] != node[:-1]
    last = np.append(others | (instant[1:] != instant[:-1]), True)[: len(node)]
    begin = np.flatnonzero(np.append(True, others)[: len(node)])
    each = np.diff(np.append(begin, len(node)))
    total = np.cumsum(tasks)
    tasks = total - np.repeat(total[begin] - tasks[begin], each)
    if (power >= 0).any():
        known = power >= 0
        known[begin] = True
        power = power[np.maximum.accumulate(np.where(known, np.arange(len(power)), 0))]
    return _Changes(instant[last], node[last], tasks[last], power[last])


def _before(node: Ints, values: NDArray[T], first: NDArray[T]) -> NDArray[T]:
    """Return the previous value of the same node."""
    before = np.empty_like(values)
    before[1:] = values[:-1]
    begin = np.flatnonzero(np.append(True, node[1:] != node[:-1])[: len(node)])
    before[begin] = first[node[begin]]
    return before


def _grouped(end_s: Floats, start_s: Floats, level: Ints, node: Ints) -> SpanColumns:
    """Return the spans of nodes: nodes with equal begin, end and level are together."""
    others = np.append(True, end_s[1:] != end_s[:-1])[: len(node)]
    breaks = others.copy()
    breaks[1:] |= (start_s[1:] != start_s[:-1]) | (level[1:] != level[:-1])
    first = np.flatnonzero(breaks)  # of runs of consecutive equal entries
    keys = level[first], start_s[first], end_s[first]
    order = np.lexsort(keys)  # stable: runs of one span are in the order of their nodes
    alike = np.append(False, np.ones(max(len(first) - 1, 0), bool))[: len(first)]
    for key in keys:
        alike[1:] &= key[order][1:] == key[order][:-1]
    if alike.any():  # spans with several runs: move them to the first one
        lead = order[np.maximum.accumulate(np.where(alike, 0, np.arange(len(order))))]
        leader = np.empty_like(order)
        leader[order] = lead
        runs = np.argsort(leader, kind="stable")
        length = np.diff(np.append(first, len(node)))[runs]
        entry = np.repeat(first[runs] - (np.cumsum(length) - length), length)
        entry += np.arange(len(entry))
        head = leader[runs] == runs
        first = (np.cumsum(length) - length)[head]
        end_s, start_s, level, node = end_s[entry], start_s[entry], level[entry], node[entry]
    return SpanColumns(start_s[first], end_s[first], level[first], first, node)


ROWS = 20_000
"""Maximum number of rows that are made together."""

ENTRIES = 500_000
"""Maximum number of nodes in these rows."""

DRAIN_CHANGES = ("repaired", "drained")


def intervals(numbers: Iterable[int]) -> str:
    """Return distinct integers as sorted intervals, such as `0-3 7`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def job_rows(record: RunRecord) -> Iterator[str]:
    """Yield the rows of `jobs.csv`, many at once."""
    of, counts = record.recording, Texts()
    owners = [
        ",".join(map(_text, (one.user, one.group, one.partition, one.account, one.qos)))
        for one in of.owners.known
    ]
    reasons = {row: _text(reason) for row, reason in of.reasons.items()}
    names = {row: _text(name) for row, name in of.names.items()}
    suspended_s = {row: repr(for_s) for row, for_s in of.suspended_until(record.end_s).items()}
    lost_core_s = {row: repr(core_s) for row, core_s in of.lost_core_s.items()}
    places = np.append(np.array(of.periods.places), 0)[np.array(of.last_period)]  # -1: the last, 0
    for first, last in portions(places, ROWS, ENTRIES):
        rows, some = range(first, last), slice(first, last)
        yield _lines(
            map(str, of.job_id[some]),
            map(repr, of.submit_s[some]),
            _times(of.start_s[some]),
            _times(of.end_s[some]),
            map(STATES.__getitem__, of.state[some]),
            map(str, of.cores[some]),
            _last_nodes(of, some),
            map(repr, record.job_energies_j[some]),
            _cells(reasons, rows),
            map(repr, of.requested_s[some]),
            map(PLACEMENTS.__getitem__, of.placement[some]),
            map(owners.__getitem__, of.owners.codes(some)),
            _cells(names, rows),
            map(counts.__getitem__, _runs(of, some)),
            _cells(suspended_s, rows, "0.0"),
            _cells(lost_core_s, rows, "0.0"),
        )


def _cells(known: Mapping[int, str], rows: range, other: str = "") -> Iterable[str]:
    """Return the cells of rows of which few are known."""
    return [known.get(row, other) for row in rows] if known else repeat(other, len(rows))


def _lines(*columns: Iterable[str]) -> str:
    """Return rows from the cells of each column."""
    return "\n".join([*map(",".join, zip(*columns, strict=True)), ""])


def _last_nodes(of: Recording, rows: slice) -> list[str]:
    """Return the nodes of the last run of consecutive jobs, as `Recording.nodes_of`."""
    started = ~np.isnan(np.array(of.start_s[rows]))
    first, nodes, _ = of.periods.allocations(np.array(of.last_period[rows])[started])
    each = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(nodes))))
    if ((np.diff(nodes) <= 0) & (np.diff(each) == 0)).any():  # not in ascending order
        nodes = nodes[np.lexsort((nodes, each))]
    found = [""] * len(started)
    cells = texts.intervals(nodes, first)
    if len(cells) == len(found):
        return cells
    for row, text in zip(np.flatnonzero(started).tolist(), cells, strict=True):
        found[row] = text
    return found


def _runs(of: Recording, rows: slice) -> list[int]:
    """Return the numbers of runs of consecutive jobs so far."""
    run = of.periods.run
    return [run[period] if period >= 0 else 0 for period in of.last_period[rows]]


def node_lines(record: RunRecord) -> Iterator[str]:
    """Yield the rows of `nodes.csv` as lines."""
    for span in node_spans(record):
        nodes = intervals(span.nodes)
        yield f"{span.start_s},{span.end_s},{nodes},{span.state},{span.power_w}\n"


def node_rows(record: RunRecord) -> Iterator[str]:
    """Yield the rows of `nodes.csv`, many at once."""
    if not can_be_columns(record):
        yield from node_lines(record)
        return
    levels = Levels(record)
    tails = _Tails(record, levels)
    for spans in span_columns(record, levels):
        yield _lines(
            map(repr, spans.start_s.tolist()),
            map(repr, spans.end_s.tolist()),
            texts.intervals(spans.node, spans.first),
            map(tails.__getitem__, spans.level.tolist()),
        )


class _Tails(dict[int, str]):
    """The last cells of rows of `nodes.csv`, by level."""

    def __init__(self, record: RunRecord, levels: Levels) -> None:
        super().__init__()
        self._meters = [GroupMeter(group, record.start_s) for group in record.platform.nodes]
        self._levels = levels

    def __missing__(self, level: int) -> str:
        kind, code, tasks = self._levels.parts(level)
        power = POWER_STATES[code]
        state = ("computing" if tasks else "idle") if power == "on" else power
        self[level] = f"{state},{self._meters[kind].node_power_w(power, (tasks,))}"
        return self[level]


def schedule_rows(record: RunRecord) -> Iterator[str]:
    """Yield the rows of `schedule.csv`, many at once."""
    of, periods = record.recording, record.recording.periods
    job_id, row_of, start_s = of.job_id, periods.row, periods.start_s
    begun = _first_of_runs(periods, len(of))
    for first, last in portions(np.array(periods.places)[np.array(begun, np.int64)], ROWS, ENTRIES):
        chosen = begun[first:last]
        yield _lines(
            [str(job_id[row_of[period]]) for period in chosen],
            [repr(start_s[period]) for period in chosen],
            *_places(periods, chosen),
        )
    rejected = STATES.index("rejected")
    for row, state in enumerate(of.state):
        if state == rejected and (row not in of.reasons or row in of.declined):
            yield f"{of.job_id[row]},,,\n"


def _first_of_runs(periods: Periods, jobs: int) -> Sequence[int]:
    """Return the first computing period of each run, in chronological order."""
    if max(periods.run, default=1) == 1 and len(set(periods.row)) == len(periods):
        return range(len(periods))  # every run has one period
    runs, found = array("i", bytes(4 * jobs)), array("q")  # runs of each job so far
    for period, row in enumerate(periods.row):
        if runs[row] < periods.run[period]:
            runs[row] += 1
            found.append(period)
    return found


def run_rows(record: RunRecord) -> Iterator[str]:
    """Yield the rows of `runs.csv`, many at once."""
    job_id, periods, counts = record.recording.job_id, record.recording.periods, Texts()
    for first, last in portions(np.array(periods.places), ROWS, ENTRIES):
        some = slice(first, last)
        yield _lines(
            [str(job_id[row]) for row in periods.row[some]],
            map(counts.__getitem__, periods.run[some]),
            map(repr, periods.start_s[some]),
            _times(periods.end_s[some]),
            map(PERIOD_ENDS.__getitem__, periods.why[some]),
            *_places(periods, range(first, last)),
        )


def _places(periods: Periods, chosen: Sequence[int]) -> tuple[list[str], list[str]]:
    """Return the nodes and the numbers of tasks of computing periods as cells."""
    first, nodes, tasks = periods.allocations(np.array(chosen, np.int64))
    return (
        texts.lists(nodes, first),
        texts.lists(tasks, first),
    )


def drain_lines(record: RunRecord) -> Iterator[str]:
    """Yield the rows of `drains.csv` as lines."""
    of = record.recording
    for time_s, node, drained in zip(of.drain_s, of.drain_node, of.drained, strict=True):
        yield f"{time_s},{node},{DRAIN_CHANGES[drained]}\n"


def explanation_lines(record: RunRecord) -> Iterator[str]:
    """Yield the rows of `explanations.csv` as lines."""
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
    return "" if math.isnan(time_s) else repr(time_s)


def _times(times_s: array[float]) -> Iterable[str]:
    if not np.isnan(np.array(times_s)).any():
        return map(repr, times_s)
    return ["" if math.isnan(time_s) else repr(time_s) for time_s in times_s]


class Texts(dict[int, str]):
    """The texts of integers, each made once."""

    def __missing__(self, number: int) -> str:
        self[number] = text = str(number)
        return text


def portions(
    sizes: NDArray[np.integer] | NDArray[np.float64], most: int, largest: int
) -> Iterator[tuple[int, int]]:
    """Yield the first set of each portion of consecutive sets and the one after its last.

    Args:
        most: maximum number of sets in a portion.
        largest: maximum number of elements in a portion of more than one set.
    """
    first, ends = 0, np.cumsum(sizes)
    while first < len(ends):
        done = ends[first - 1] if first else 0
        last = int(np.searchsorted(ends, done + largest, "right"))
        last = max(first + 1, min(last, first + most))
        yield first, last
        first = last


class Column(NamedTuple):
    """A column of a CSV file.

    Attributes:
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
