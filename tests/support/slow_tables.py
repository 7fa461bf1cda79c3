"""The rows of the tables one at a time: the reference of the tables in columns."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from hpcosim_sim.record.periods import PERIOD_ENDS, Periods
from hpcosim_sim.record.recording import STATES
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_sim.record.tables import intervals
from hpcosim_workloads.table import PLACEMENTS
from support.recordings import runs_of


def slow_job_lines(record: RunRecord) -> Iterator[str]:
    """Yield the rows of `jobs.csv`."""
    of, suspended_s = record.recording, record.recording.suspended_until(record.end_s)
    for row in range(len(of)):
        owner = of.owners[row]
        cells = [
            of.job_id[row],
            of.submit_s[row],
            _time(of.start_s[row]),
            _time(of.end_s[row]),
            STATES[of.state[row]],
            of.cores[row],
            intervals(of.nodes_of(row)),
            record.job_energies_j[row],
            _text(of.reasons.get(row, "")),
            of.requested_s[row],
            PLACEMENTS[of.placement[row]],
            *map(_text, (owner.user, owner.group, owner.partition, owner.account, owner.qos)),
            _text(of.names.get(row, "")),
            runs_of(of, row),
            suspended_s.get(row, 0.0),
            of.lost_core_s.get(row, 0.0),
        ]
        yield ",".join(map(str, cells)) + "\n"


def slow_schedule_lines(record: RunRecord) -> Iterator[str]:
    """Yield the rows of `schedule.csv`."""
    of, periods = record.recording, record.recording.periods
    seen: set[tuple[int, int]] = set()
    for period, row in enumerate(periods.row):
        if (row, periods.run[period]) not in seen:
            seen.add((row, periods.run[period]))
            yield f"{of.job_id[row]},{periods.start_s[period]},{_places(periods, period)}\n"
    for row in range(len(of)):
        by_server = row in of.reasons and row not in of.declined
        if STATES[of.state[row]] == "rejected" and not by_server:
            yield f"{of.job_id[row]},,,\n"


def slow_run_lines(record: RunRecord) -> Iterator[str]:
    """Yield the rows of `runs.csv`."""
    job_id, periods = record.recording.job_id, record.recording.periods
    for period, row in enumerate(periods.row):
        yield (
            f"{job_id[row]},{periods.run[period]},{periods.start_s[period]},"
            f"{_time(periods.end_s[period])},{PERIOD_ENDS[periods.why[period]]},"
            f"{_places(periods, period)}\n"
        )


def _places(periods: Periods, period: int) -> str:
    nodes, tasks = periods.nodes_of(period), periods.tasks_of(period)
    return f"{' '.join(map(str, nodes))},{' '.join(map(str, tasks))}"


def _time(time_s: float) -> str:
    return "" if isnan(time_s) else str(time_s)


def _text(name: str) -> str:
    quoted = any(sign in name for sign in ',"\r\n')
    return '"' + name.replace('"', '""') + '"' if quoted else name
