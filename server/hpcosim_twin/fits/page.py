"""The calibration of a cluster as one page that needs no other file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_experiments.report.panels import panels, titled
from hpcosim_experiments.report.write import inline, template
from hpcosim_slurm.files.output import write_files
from hpcosim_twin.answers.table import RANGES
from hpcosim_twin.fits.cluster import ClusterCalibration
from hpcosim_twin.fits.finding import Finding
from hpcosim_twin.fits.replay import Quality

TEMPLATE = Path(__file__).with_name("page.html.jinja")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"))


class Row(NamedTuple):
    """A finding as texts."""

    name: str
    value: str
    interval: str
    observations: str
    reason: str


def write_page(found: ClusterCalibration, path: Path, *, force: bool = False) -> None:
    """Write the page.

    Raises:
        ExperimentError: Jinja is missing.
        FigureError: matplotlib is missing.
        InputError: the file exists, or cannot be written.
    """
    page = template(TEMPLATE)
    text = page.render(
        title="Calibration of a cluster",
        facts=list(_facts(found)),
        findings=[_row(each) for each in found.findings],
        kept=[_cells(each) for each in found.kept],
        ranges=[f"{each:.0%}" for each in RANGES],
        figures=_figures(found),
        warnings=found.warnings,
    )
    write_files({path: text.encode()}, force=force)


def _facts(found: ClusterCalibration) -> Iterator[tuple[str, str]]:
    yield "jobs", f"{found.jobs:,}"
    yield "accounting", f"{_date(found.first_s)} to {_date(found.last_s)}"
    yield "part kept apart", f"from {_date(found.kept_s)}"
    yield "time zone of the rhythm", found.time_zone
    yield "answers whose scores widen ranges", str(len(found.scores))


def _row(each: Finding) -> Row:
    interval = ""
    if each.low is not None and each.high is not None:
        interval = f"{_value(each.low, each.unit)} to {_value(each.high, each.unit)}"
    observations = f"{each.observations:,}" if each.observations else ""
    return Row(each.name, _value(each.value, each.unit), interval, observations, each.reason)


def _value(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}".rstrip()


def _cells(each: Quality) -> list[str]:
    return [
        each.group,
        str(each.jobs),
        time_text(each.mean_wait_s),
        time_text(each.mean_error_s),
        time_text(each.median_wait_s),
        time_text(each.median_error_s),
        time_text(each.error_s),
        *(f"{each.coverage[str(probability)]:.0%}" for probability in RANGES),
        *(time_text(each.width_s[str(probability)]) for probability in RANGES),
        time_text(each.interval_score_s),
    ]


def time_text(value_s: float | None) -> str:
    """Return a duration, with two or three digits."""
    if value_s is None:
        return "never"
    for length_s, unit in UNITS:
        if abs(value_s) >= length_s:
            return f"{value_s / length_s:.1f} {unit}"
    return f"{value_s:.0f} s"


def _date(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _figures(found: ClusterCalibration) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calibration.svg"
        with panels(path, 1, 3, (11.0, 3.4)) as (reliable, hours, days):
            _reliability(reliable, found)
            _bars(hours, "Submissions by hour of the day", found.rhythm.hours, range(0, 24, 6))
            _bars(days, "Submissions by day of the week", found.rhythm.days, range(7))
            days.set_xticks(range(7), DAYS)
        return [inline("calibration", path.read_text(encoding="utf-8"))]


def _reliability(axes: Any, found: ClusterCalibration) -> None:
    titled(axes, "Reliability")
    axes.plot((0, 1), (0, 1), color="#999999", linewidth=0.8)
    axes.plot(found.levels[: len(found.reached)], found.reached, marker="o", markersize=4)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_xlabel("level of the quantile")
    axes.set_ylabel("share of waits up to it")


def _bars(axes: Any, title: str, factors: tuple[float, ...], ticks: range) -> None:
    titled(axes, title)
    axes.bar(range(len(factors)), factors, color="#4477aa")
    axes.set_xticks(ticks)
    axes.set_ylabel("factor of the mean rate")
