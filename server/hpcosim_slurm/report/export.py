"""Both runs of a session as results folders, and the figures as JSON and text."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hpcosim_server.record.results import Run, write_results
from hpcosim_slurm.report.comparison import Comparison, Spread, compare
from hpcosim_slurm.report.rows import SessionRows
from hpcosim_slurm.report.scripted import ScriptedRun, run_of

SHADOW, SLURM = "shadow", "slurm"
"""Names of the folders of both runs."""


class Reported(msgspec.Struct, frozen=True):
    """What a report has.

    Attributes:
        comparison: the figures.
        shadow, slurm: the two runs.
    """

    comparison: Comparison
    shadow: ScriptedRun
    slurm: ScriptedRun


def report_of(session: SessionRows, tolerance_s: float) -> Reported:
    """Return the report of a session.

    Args:
        session: the session.
        tolerance_s: largest difference of two starts that match, s.
    """
    shadow = run_of(session, lambda row: row.shadow, is_real=False)
    real = run_of(session, lambda row: row.real, is_real=True)
    return Reported(compare(session, shadow, real, tolerance_s), shadow, real)


def write_folders(reported: Reported, folder: Path, version: str) -> list[Path]:
    """Write both runs as results folders, which `hpcosim report` shows, and return them.

    Raises:
        ResultsError: they cannot be written.
    """
    about = reported.comparison
    written = []
    for name, run, scheduler in (
        (SHADOW, reported.shadow, f"{about.scheduler or 'scheduler'} (shadow)"),
        (SLURM, reported.slurm, "Slurm"),
    ):
        what = f"the journal ends; the session began at {shown_time(about.start_s)}"
        write_results(
            folder / name,
            run.record,
            Run(
                scenario=about.cluster,
                scheduler=scheduler,
                seed=0,
                complete=True,
                ended_because=what,
                warnings=[f"energy: {about.power}"],
                hpcosim=version,
                realtime=1.0,
            ),
        )
        written.append(folder / name)
    return written


def shown_time(unix_s: float) -> str:
    """Return a time for people, in UTC."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def text_of(comparison: Comparison) -> str:
    """Return the figures for people."""
    it = comparison
    hours = (it.end_s - it.start_s) / 3600.0
    within = f"starts within {it.tolerance_s:g} s"
    lines = [
        f"{it.scheduler or 'scheduler'} in the shadow of {it.cluster}, from "
        f"{shown_time(it.start_s)}, {hours:.2f} h",
        f"jobs                   {it.jobs} (and {it.running_at_start} that ran at the start)",
        f"decisions              {it.decisions} in {it.requests} requests",
        f"started                {it.shadow.started} in the shadow, {it.slurm.started} by Slurm, "
        f"{it.started_by_both} by both",
        f"{within:<22} {_percent(it.start_match)} of the started jobs",
        f"same nodes             {_percent(it.node_match)} of the jobs that both started",
        f"start, shadow - Slurm  {_spread(it.start_error_s)}",
        f"absolute difference    {_spread(it.absolute_start_error_s)}",
        f"wait, shadow           {_spread(it.shadow.wait_s)}",
        f"wait, Slurm            {_spread(it.slurm.wait_s)}",
        f"utilization            {it.shadow.utilization:.1%} in the shadow, "
        f"{it.slurm.utilization:.1%} by Slurm",
    ]
    for name, errors in (("shadow", it.predicted_shadow), ("Slurm", it.predicted_slurm)):
        if errors:
            lines.append(
                f"expected starts        {errors['start_forecasts']:.0f}, "
                f"{errors['mean_abs_start_error_s']:.1f} s from those of {name} in the mean"
            )
    for day, (shadow, slurm) in enumerate(
        zip(it.shadow.energy_kwh_per_day, it.slurm.energy_kwh_per_day, strict=True), start=1
    ):
        lines.append(
            f"energy, day {day:<10} {shadow:.3f} kWh in the shadow, {slurm:.3f} kWh by Slurm"
        )
    lines.append(f"energy                 {it.power}")
    return "\n".join(lines) + "\n"


def _percent(part: float | None) -> str:
    return "none" if part is None else f"{part:.1%}"


def _spread(spread: Spread) -> str:
    if spread.median is None:
        return "none"
    return (
        f"median {spread.median:.1f} s, mean {spread.mean:.1f} s, "
        f"80 % in {spread.p10:.1f} to {spread.p90:.1f} s"
    )
