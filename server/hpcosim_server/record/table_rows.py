"""The rows of the CSV files of a results folder, as lines of text; `tables` defines the columns."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator

from hpcosim_server.record.periods import PERIOD_ENDS, Periods
from hpcosim_server.record.recording import STATES
from hpcosim_server.record.run_record import RunRecord
from hpcosim_server.record.timeline import node_spans
from hpcosim_workloads.table import PLACEMENTS

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


def job_lines(record: RunRecord) -> Iterator[str]:
    """Yield the rows of `jobs.csv` as lines."""
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


def node_lines(record: RunRecord) -> Iterator[str]:
    """Yield the rows of `nodes.csv` as lines."""
    for span in node_spans(record):
        nodes = intervals(span.nodes)
        yield f"{span.start_s},{span.end_s},{nodes},{span.state},{span.power_w}\n"


def schedule_lines(record: RunRecord) -> Iterator[str]:
    """Yield the rows of `schedule.csv` as lines."""
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


def run_lines(record: RunRecord) -> Iterator[str]:
    """Yield the rows of `runs.csv` as lines."""
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
    return "" if math.isnan(time_s) else str(time_s)
