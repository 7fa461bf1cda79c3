"""The figures of a session: what the scheduler would have done beside what Slurm did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

import msgspec
import numpy as np

from hpcosim_server.record.forecasts import errors_by_lead
from hpcosim_server.record.run_record import RunRecord
from hpcosim_slurm.report.rows import JobRow, SessionRows
from hpcosim_slurm.report.scripted import ScriptedRun

J_PER_KWH = 3.6e6
DAY_S = 86_400.0


class Spread(msgspec.Struct, frozen=True):
    """A distribution of times, s; NaN values are left out, and no values give null.

    Attributes:
        mean, median, p10, p90: mean, median, and the limits of the middle 80 %.
    """

    mean: float | None = None
    median: float | None = None
    p10: float | None = None
    p90: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the distribution of values."""
        if not values:
            return cls()
        p10, p90 = np.quantile(values, [0.1, 0.9])
        return cls(fmean(values), median(values), float(p10), float(p90))


class SideFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one side.

    Attributes:
        started: number of jobs that have started since the begin of the session.
        wait_s: waits of the jobs that both sides have started, s.
        utilization: part of the core-seconds of the cluster that jobs had, 0 to 1.
        energy_kwh: energy of the nodes, kWh: a model, see `power`.
        energy_kwh_per_day: the same for each day of 24 h since the begin; the last may be shorter.
        not_shown: number of starts for which the copy of the cluster has no room.
    """

    started: int
    wait_s: Spread
    utilization: float
    energy_kwh: float
    energy_kwh_per_day: list[float]
    not_shown: int


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a session.

    Attributes:
        cluster: name of the cluster.
        scheduler: name of the scheduler.
        start_s, end_s: begin and end of the session, Unix time, s.
        jobs: number of jobs on which the scheduler could decide.
        running_at_start: number of jobs that ran already at the begin.
        not_copied: number of those that could not be copied.
        requests, decisions: number of requests and of decisions of the scheduler.
        started_by_both: number of jobs that both sides have started.
        tolerance_s: largest difference of two starts that match, s.
        start_match: part of the jobs that either side has started whose starts match, 0 to 1;
            null: there are none.
        node_match: part of the jobs that both have started that have the same nodes; null: none.
        start_error_s: start in the shadow minus the real one, s.
        absolute_start_error_s: its absolute value, s.
        shadow, slurm: the figures of each side.
        power: how the energy is calculated.
        predicted_shadow: errors of the starts that the scheduler expected (`--explain`), against
            those in the shadow: metrics of `hpcosim_server.record.forecasts`. Empty: it expected
            none.
        predicted_slurm: the same against the real starts.
    """

    cluster: str
    scheduler: str
    start_s: float
    end_s: float
    jobs: int
    running_at_start: int
    not_copied: int
    requests: int
    decisions: int
    started_by_both: int
    tolerance_s: float
    start_match: float | None
    node_match: float | None
    start_error_s: Spread
    absolute_start_error_s: Spread
    shadow: SideFigures
    slurm: SideFigures
    power: str
    predicted_shadow: dict[str, int | float]
    predicted_slurm: dict[str, int | float]


def compare(
    session: SessionRows, shadow: ScriptedRun, real: ScriptedRun, tolerance_s: float
) -> Comparison:
    """Return the figures of a session.

    Args:
        session: the session.
        shadow: its run in the shadow.
        real: its real run.
        tolerance_s: largest difference of two starts that match, s.
    """
    rows = [row for row in session.rows if not row.was_running]
    both = [row for row in rows if row.shadow.has_started and row.real.has_started]
    either = [row for row in rows if row.shadow.has_started or row.real.has_started]
    errors_s = [row.shadow.start_s - row.real.start_s for row in both]
    near = sum(abs(error_s) <= tolerance_s for error_s in errors_s)
    same = sum(set(row.shadow.nodes) == set(row.real.nodes) for row in both)
    return Comparison(
        cluster=session.cluster,
        scheduler=session.scheduler,
        start_s=session.start_s,
        end_s=session.end_s,
        jobs=len(rows),
        running_at_start=len(session.rows) - len(rows),
        not_copied=session.not_copied,
        requests=session.requests,
        decisions=session.decisions,
        started_by_both=len(both),
        tolerance_s=tolerance_s,
        start_match=near / len(either) if either else None,
        node_match=same / len(both) if both else None,
        start_error_s=Spread.of(errors_s),
        absolute_start_error_s=Spread.of([abs(error_s) for error_s in errors_s]),
        shadow=_side(
            sum(row.shadow.has_started for row in rows), _waits(both, shadow=True), shadow
        ),
        slurm=_side(sum(row.real.has_started for row in rows), _waits(both, shadow=False), real),
        power=_power(session),
        predicted_shadow=_predicted(
            session, {row.spec.job_id: row.shadow.start_s for row in session.rows}
        ),
        predicted_slurm=_predicted(
            session, {row.spec.job_id: row.real.start_s for row in session.rows}
        ),
    )


def _predicted(session: SessionRows, start_s: dict[int, float]) -> dict[str, int | float]:
    """Return the errors of the expected starts against some starts, by job id; NaN: none."""
    known = [
        said
        for said in session.said
        if not math.isnan(said.expected_s) and not math.isnan(start_s[said.job_id])
    ]
    errors_s = [start_s[said.job_id] - said.expected_s for said in known]
    return errors_by_lead(
        np.array(errors_s), np.array([said.expected_s - said.at_s for said in known])
    )


def _waits(rows: Sequence[JobRow], *, shadow: bool) -> list[float]:
    return [
        max((row.shadow if shadow else row.real).start_s - row.spec.submit_s, 0.0) for row in rows
    ]


def _side(started: int, waits_s: list[float], run: ScriptedRun) -> SideFigures:
    return SideFigures(
        started=started,
        wait_s=Spread.of(waits_s),
        utilization=_utilization(run.record),
        energy_kwh=run.record.energy_j / J_PER_KWH,
        energy_kwh_per_day=[energy_j / J_PER_KWH for energy_j in run.days_j],
        not_shown=run.left_out,
    )


def _utilization(record: RunRecord) -> float:
    """Return the part of the core-seconds that jobs had."""
    recording, used = record.recording, 0.0
    for row in range(len(recording)):
        start_s, end_s = recording.start_s[row], recording.end_s[row]
        if not math.isnan(start_s):
            over_s = record.end_s if math.isnan(end_s) else end_s
            used += (over_s - start_s) * recording.cores[row]
    whole = record.duration_s * record.platform.core_count
    return used / whole if whole else 0.0


def _power(session: SessionRows) -> str:
    group = session.platform.nodes[0]
    busy_w = group.idle_w + group.cores * group.dynamic_w
    assert group.power_states is not None
    return (
        f"a model, not measured: each node draws {group.idle_w:g} W idle, {busy_w:g} W with all "
        f"CPUs in use, and {group.power_states.sleep_w:g} W off or down"
    )
