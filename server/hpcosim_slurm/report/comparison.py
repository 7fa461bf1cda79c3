"""The figures of a session: what the scheduler would have done beside what Slurm did."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np

from hpcosim_sim.record.forecasts import errors_by_lead
from hpcosim_slurm.report.figures import SideFigures, Spread, part, power_of, side_of, wait_s
from hpcosim_slurm.report.rows import JobRow, SessionRows
from hpcosim_slurm.report.scripted import ScriptedRun
from hpcosim_slurm.report.texts import shown_part, shown_spread, shown_time, text_of


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
            those in the shadow: metrics of `hpcosim_sim.record.forecasts`. Empty: it expected
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
        start_match=part(near, len(either)),
        node_match=part(same, len(both)),
        start_error_s=Spread.of(errors_s),
        absolute_start_error_s=Spread.of([abs(error_s) for error_s in errors_s]),
        shadow=side_of(
            sum(row.shadow.has_started for row in rows),
            [wait_s(row.spec, row.shadow) for row in both],
            shadow,
        ),
        slurm=side_of(
            sum(row.real.has_started for row in rows),
            [wait_s(row.spec, row.real) for row in both],
            real,
        ),
        power=power_of(session),
        predicted_shadow=_predicted(session, lambda row: row.shadow.start_s),
        predicted_slurm=_predicted(session, lambda row: row.real.start_s),
    )


def _predicted(session: SessionRows, start_of: Callable[[JobRow], float]) -> dict[str, int | float]:
    """Return the errors of the expected starts against some starts; NaN: a job has none."""
    start_s = {row.spec.job_id: start_of(row) for row in session.rows}
    known = [
        said
        for said in session.said
        if not math.isnan(said.expected_s) and not math.isnan(start_s[said.job_id])
    ]
    errors_s = [start_s[said.job_id] - said.expected_s for said in known]
    return errors_by_lead(
        np.array(errors_s), np.array([said.expected_s - said.at_s for said in known])
    )


def text_of_comparison(comparison: Comparison) -> str:
    """Return the figures for people."""
    it = comparison
    hours = (it.end_s - it.start_s) / 3600.0
    title = (
        f"{it.scheduler or 'scheduler'} in the shadow of {it.cluster}, from "
        f"{shown_time(it.start_s)}, {hours:.2f} h"
    )
    lines = [
        ("jobs", f"{it.jobs} (and {it.running_at_start} that ran at the start)"),
        ("decisions", f"{it.decisions} in {it.requests} requests"),
        (
            "started",
            f"{it.shadow.started} in the shadow, {it.slurm.started} by Slurm, "
            f"{it.started_by_both} by both",
        ),
        (
            f"starts within {it.tolerance_s:g} s",
            f"{shown_part(it.start_match)} of the started jobs",
        ),
        ("same nodes", f"{shown_part(it.node_match)} of the jobs that both started"),
        ("start, shadow - Slurm", shown_spread(it.start_error_s)),
        ("absolute difference", shown_spread(it.absolute_start_error_s)),
        ("wait, shadow", shown_spread(it.shadow.wait_s)),
        ("wait, Slurm", shown_spread(it.slurm.wait_s)),
        (
            "utilization",
            f"{it.shadow.utilization:.1%} in the shadow, {it.slurm.utilization:.1%} by Slurm",
        ),
    ]
    for name, errors in (("shadow", it.predicted_shadow), ("Slurm", it.predicted_slurm)):
        if errors:
            mean_s = errors["mean_abs_start_error_s"]
            expected = f"{errors['start_forecasts']:.0f}, {mean_s:.1f} s from those of {name}"
            lines.append(("expected starts", f"{expected} in the mean"))
    for day, (shadow, slurm) in enumerate(
        zip(it.shadow.energy_kwh_per_day, it.slurm.energy_kwh_per_day, strict=True), start=1
    ):
        shown = f"{shadow:.3f} kWh in the shadow, {slurm:.3f} kWh by Slurm"
        lines.append((f"energy, day {day}", shown))
    lines.append(("energy", it.power))
    return text_of(title, lines)
