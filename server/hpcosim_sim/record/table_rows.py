"""The rows of the CSV files of a results folder, as text; `tables` defines the columns."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from hpcosim_sim.physics.power import GroupMeter
from hpcosim_sim.record.node_columns import Levels, can_be_columns, span_columns
from hpcosim_sim.record.node_sets import Texts, intervals_of_sets, joined, portions
from hpcosim_sim.record.periods import PERIOD_ENDS, Periods
from hpcosim_sim.record.recording import POWER_STATES, STATES, Recording
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_sim.record.timeline import node_spans
from hpcosim_workloads.table import PLACEMENTS

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
    of, texts = record.recording, Texts()
    owners = [
        ",".join(map(_text, (one.user, one.group, one.partition, one.account, one.qos)))
        for one in of.owners.known
    ]
    reasons = {row: _text(reason) for row, reason in of.reasons.items()}
    names = {row: _text(name) for row, name in of.names.items()}
    suspended_s = of.suspended_until(record.end_s)
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
            _last_nodes(of, some, texts),
            map(repr, record.job_energies_j[some]),
            [reasons.get(row, "") for row in rows],
            map(repr, of.requested_s[some]),
            map(PLACEMENTS.__getitem__, of.placement[some]),
            map(owners.__getitem__, of.owners.codes(some)),
            [names.get(row, "") for row in rows],
            map(texts.__getitem__, _runs(of, some)),
            [str(suspended_s.get(row, 0.0)) for row in rows],
            [str(of.lost_core_s.get(row, 0.0)) for row in rows],
        )


def _lines(*columns: Iterable[str]) -> str:
    """Return rows from the cells of each column."""
    return "\n".join([*map(",".join, zip(*columns, strict=True)), ""])


def _last_nodes(of: Recording, rows: slice, texts: Texts) -> list[str]:
    """Return the nodes of the last run of consecutive jobs, as `Recording.nodes_of`."""
    started = ~np.isnan(np.array(of.start_s[rows]))
    first, nodes, _ = of.periods.allocations(np.array(of.last_period[rows])[started])
    each = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(nodes))))
    if ((np.diff(nodes) <= 0) & (np.diff(each) == 0)).any():  # not in ascending order
        nodes = nodes[np.lexsort((nodes, each))]
    found = [""] * len(started)
    for row, text in zip(
        np.flatnonzero(started).tolist(), intervals_of_sets(nodes, first, texts), strict=True
    ):
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
    levels, texts = Levels(record), Texts()
    tails = _Tails(record, levels)
    for spans in span_columns(record, levels):
        yield _lines(
            map(repr, spans.start_s.tolist()),
            map(repr, spans.end_s.tolist()),
            intervals_of_sets(spans.node, spans.first, texts),
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
    of, periods, texts = record.recording, record.recording.periods, Texts()
    job_id, row_of, start_s = of.job_id, periods.row, periods.start_s
    begun = _first_of_runs(periods, len(of))
    for first, last in portions(np.array(periods.places)[np.array(begun, np.int64)], ROWS, ENTRIES):
        chosen = begun[first:last]
        yield _lines(
            [str(job_id[row_of[period]]) for period in chosen],
            [repr(start_s[period]) for period in chosen],
            *_places(periods, chosen, texts),
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
    job_id, periods, texts = record.recording.job_id, record.recording.periods, Texts()
    for first, last in portions(np.array(periods.places), ROWS, ENTRIES):
        some = slice(first, last)
        yield _lines(
            [str(job_id[row]) for row in periods.row[some]],
            map(texts.__getitem__, periods.run[some]),
            map(repr, periods.start_s[some]),
            _times(periods.end_s[some]),
            map(PERIOD_ENDS.__getitem__, periods.why[some]),
            *_places(periods, range(first, last), texts),
        )


def _places(periods: Periods, chosen: Sequence[int], texts: Texts) -> tuple[list[str], list[str]]:
    """Return the nodes and the numbers of tasks of computing periods as cells."""
    first, nodes, tasks = periods.allocations(np.array(chosen, np.int64))
    return (
        joined([texts[node] for node in nodes.tolist()], first),
        joined([texts[count] for count in tasks.tolist()], first),
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


def _times(times_s: Iterable[float]) -> list[str]:
    return ["" if math.isnan(time_s) else repr(time_s) for time_s in times_s]
