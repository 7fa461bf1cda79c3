"""The tables of a report, as data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from hpcosim_experiments.report.analysis import Analysis
from hpcosim_experiments.report.captions import (
    averaged_text,
    interval_text,
    sentence,
    statistic_text,
)
from hpcosim_experiments.report.measures import Measure
from hpcosim_experiments.report.units import measure_of, with_digits
from hpcosim_experiments.statistics.bootstrap import Estimate
from hpcosim_experiments.statistics.rows import Labels, Rows, groups
from hpcosim_experiments.statistics.summary import succeeded, summaries

MAX_CLASSES = 10
"""Maximum number of classes of jobs in a table: those with most jobs."""

MAX_FAILED = 50
"""Maximum number of failed runs and missing pairs in a table."""

OF_CLASSES = ("mean_wait_s", "mean_bounded_slowdown")
"""Metrics of classes of jobs, if the report's metrics are none of single jobs."""

CLASS_TITLES = {"cores": "Metrics by size of the jobs", "user": "Metrics by user"}
"""Titles of the tables of classes of jobs."""

UNDEFINED = "n/a"
MINUS = "\N{MINUS SIGN}"
PERCENT = Measure("", "", "%", 0.01)


class Cell(NamedTuple):
    """A cell of a table.

    Attributes:
        text: the text.
        interval: the confidence interval; empty: none.
        strong: whether the interval excludes the value of no difference.
    """

    text: str
    interval: str = ""
    strong: bool = False


class Table(NamedTuple):
    """A table of a report.

    Attributes:
        name: name of its LaTeX file, without suffix.
        title: its title.
        caption: its caption.
        head: titles of the columns.
        rows: the cells of each row.
        labels: number of first columns that are left-aligned labels.
    """

    name: str
    title: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    labels: int


def overview_of(analysis: Analysis) -> list[Table]:
    """Return the tables of what was run: the axes, and the failed runs if there are any."""
    return _with_rows([axes_table(analysis), failed_table(analysis)])


def tables_of(analysis: Analysis) -> list[Table]:
    """Return the tables of results; those without rows are left out."""
    return _with_rows(
        [metrics_table(analysis), *comparison_tables(analysis), *breakdown_tables(analysis)]
    )


def _with_rows(tables: Sequence[Table]) -> list[Table]:
    return [table for table in tables if table.rows]


def axes_table(analysis: Analysis) -> Table:
    """Return the axes of the experiment with their labels and their role."""
    roles = dict.fromkeys(analysis.axes, "constant")
    roles |= dict.fromkeys(analysis.kept, "compared")
    roles |= dict.fromkeys(analysis.settings.tasks, "tasks")
    roles |= dict.fromkeys(analysis.plan.over, "repeats")
    rows = [
        [Cell(axis), Cell(roles[axis]), Cell(", ".join(map(str, labels)))]
        for axis, labels in analysis.axes.items()
    ]
    caption = "The axes of the experiment. Statistics are over the repeats."
    return Table("axes", "Axes", caption, ["axis", "role", "labels"], rows, 3)


def failed_table(analysis: Analysis) -> Table:
    """Return the failed runs with their errors."""
    failed = analysis.failed
    rows = [
        [*_labels({axis: row[axis] for axis in analysis.axes}), Cell(str(row.get("error") or ""))]
        for row in failed[:MAX_FAILED]
    ]
    caption = f"{len(failed)} of {len(analysis.rows)} runs failed; no statistic contains them."
    if len(failed) > MAX_FAILED:
        caption += f" The table has the first {MAX_FAILED}."
    head = [*analysis.axes, "error"]
    return Table("failed", "Failed runs", caption, head, rows, len(head))


def metrics_table(analysis: Analysis) -> Table:
    """Return the statistic of each metric with its interval, by combination."""
    found = analysis.summaries(analysis.kept, analysis.settings.metrics)
    succeeding = groups([row for row in analysis.rows if succeeded(row)], *analysis.kept)
    runs = [_of(len(succeeding.get(tuple(one.labels.values()), ())), one.runs) for one in found]
    columns = [
        _column(analysis.measures[name], [one.estimates[name] for one in found])
        for name in analysis.settings.metrics
    ]
    return Table(
        "metrics",
        "Metrics",
        _caption(analysis, "runs"),
        [*analysis.kept, "runs", *(title for title, _ in columns)],
        _rows([one.labels for one in found], runs, [cells for _, cells in columns]),
        len(analysis.kept),
    )


def comparison_tables(analysis: Analysis) -> list[Table]:
    """Return the paired differences to the baseline, the relative ones, and the missing pairs."""
    baseline = analysis.settings.baseline
    found = analysis.compared()
    if baseline is None or not found:
        return []
    metrics, labels = analysis.settings.metrics, [one.labels for one in found]
    pairs = [_of(one.pairs, one.pairs + len(one.missing)) for one in found]
    named = labels_text(baseline)
    differences = [
        _column(analysis.measures[name], [one.differences[name] for one in found], 0.0)
        for name in metrics
    ]
    changes = [
        _column(PERCENT._replace(title=analysis.measures[name].title), estimates, 0.0)
        for name in metrics
        for estimates in [[_less_one(one.ratios[name]) for one in found]]
    ]
    about = _caption(analysis, "pairs") + (
        f" A pair is a run and the run of {named} with the same labels on all other axes. Bold: "
        f"the interval excludes 0; there is no correction for multiple comparisons."
    )
    tables = []
    for name, title, what, columns in (
        (
            "differences",
            f"Differences to {named}",
            f"Paired differences, run - {named}.",
            differences,
        ),
        ("changes", f"Relative differences to {named}", f"Ratio to {named} - 1.", changes),
    ):
        head = [*analysis.kept, "pairs", *(title for title, _ in columns)]
        rows = _rows(labels, pairs, [cells for _, cells in columns])
        tables.append(Table(name, title, f"{what} {about}", head, rows, len(analysis.kept)))
    missing = [
        [Cell(labels_text({**one.labels, **repeat})), Cell(why)]
        for one in found
        for repeat, why in one.missing
    ]
    caption = f"{len(missing)} pairs lack a result, so the differences do not contain them."
    shown = missing[:MAX_FAILED]
    head = ["combination", "reason"]
    return [*tables, Table("missing-pairs", "Missing pairs", caption, head, shown, 2)]


def breakdown_tables(analysis: Analysis) -> list[Table]:
    """Return the metrics of each class of jobs, a table for each kind of class."""
    return [
        _breakdown(analysis, kind, rows)
        for (kind,), rows in groups(analysis.breakdowns, "breakdown").items()
    ]


def _breakdown(analysis: Analysis, kind: str, rows: Rows) -> Table:
    """Return the table of a kind of class, such as `cores`."""
    measured = [name for name in analysis.settings.metrics if rows[0].get(name) is not None]
    names = ["jobs", *(measured or OF_CLASSES)]
    jobs = {label: sum(row["jobs"] for row in of) for (label,), of in groups(rows, "class").items()}
    most = sorted(jobs, key=lambda label: -jobs[label])[:MAX_CLASSES]
    shown = [row for row in rows if row["class"] in most]
    kept = [*analysis.kept, "class"]
    found = summaries(shown, kept, names, analysis.plan)
    places = [{label: at for at, label in enumerate(analysis.axes[axis])} for axis in analysis.kept]
    found.sort(
        key=lambda one: (
            [place[one.labels[axis]] for axis, place in zip(analysis.kept, places, strict=True)],
            _first_number(str(one.labels["class"])),
        )
    )
    columns = [
        _column(
            measure_of(name, [row.get(name) for row in shown]), [o.estimates[name] for o in found]
        )
        for name in names
    ]
    caption = _caption(analysis, "runs")
    if len(jobs) > MAX_CLASSES:
        caption += f" The table has the {MAX_CLASSES} of {len(jobs)} classes with most jobs."
    return Table(
        f"by-{kind}",
        CLASS_TITLES[kind],
        caption,
        [*analysis.kept, kind, "runs", *(title for title, _ in columns)],
        _rows(
            [one.labels for one in found], [str(one.runs) for one in found], [c for _, c in columns]
        ),
        len(kept),
    )


def labels_text(labels: Labels) -> str:
    """Return labels in a sentence: `scheduler easy, load 0.7`; text labels without their axis."""
    return ", ".join(
        label if isinstance(label, str) else f"{axis} {label}" for axis, label in labels.items()
    )


def _column(
    measure: Measure, estimates: Sequence[Estimate], none: float | None = None
) -> tuple[str, list[Cell]]:
    """Return the title of a column of estimates, and its cells.

    Args:
        measure: the measure.
        estimates: the estimates, in the unit of the metric.
        none: value that means no difference; None: the column has no differences.
    """
    fine = with_digits(measure, [one.value for one in estimates])
    return sentence(fine.named), [_cell(one, fine, none) for one in estimates]


def _cell(one: Estimate, measure: Measure, none: float | None) -> Cell:
    """Return the cell of an estimate."""

    def text(value: float) -> str:
        return measure.text(value / measure.scale).replace("-", MINUS)

    if one.value != one.value:  # NaN
        return Cell(UNDEFINED)
    if not one.has_interval:
        return Cell(text(one.value))
    strong = none is not None and not one.low <= none <= one.high
    return Cell(text(one.value), f"[{text(one.low)}, {text(one.high)}]", strong)


def _less_one(ratio: Estimate) -> Estimate:
    """Return a ratio as a relative difference."""
    return ratio._replace(value=ratio.value - 1, low=ratio.low - 1, high=ratio.high - 1)


def _rows(
    labels: Sequence[Labels], counts: Sequence[str], columns: Sequence[Sequence[Cell]]
) -> list[list[Cell]]:
    """Return the rows of a table: labels, number of runs, and a cell of each column."""
    return [
        [*_labels(of), Cell(count), *cells]
        for of, count, *cells in zip(labels, counts, *columns, strict=True)
    ]


def _labels(labels: Labels) -> list[Cell]:
    return [Cell(str(label)) for label in labels.values()]


def _of(part: int, whole: int) -> str:
    return str(whole) if part == whole else f"{part} of {whole}"


def _caption(analysis: Analysis, counted: str) -> str:
    """Return the statistic, the interval and n of a table."""
    parts = [f"{sentence(statistic_text(analysis.plan))}."]
    parts.append(averaged_text(analysis.plan.tasks))
    if analysis.plan.over:
        parts.append(f"In brackets: {interval_text(analysis.plan.bootstrap)}.")
    parts.append(f"n is in the column {counted}.")
    return " ".join(filter(None, parts))


def _first_number(text: str) -> tuple[float, str]:
    """Return a key that sorts classes by their first number."""
    found = re.match(r"\d+", text)
    return (float(found[0]) if found else float("inf"), text)
