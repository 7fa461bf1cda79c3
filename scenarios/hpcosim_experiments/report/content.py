"""The content of a report, which each format presents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from hpcosim_experiments.report.analysis import Analysis
from hpcosim_experiments.report.cells import (
    Cell,
    Table,
    averaged_text,
    column_of,
    interval_text,
    label_cells,
    labels_text,
    listed,
    part_of,
    rows_of,
    sentence,
    statistic_text,
)
from hpcosim_experiments.report.figures import DrawnFigure, Figures, cut, listed_labels
from hpcosim_experiments.report.units import Measure, measure_of
from hpcosim_experiments.statistics.bootstrap import Estimate
from hpcosim_experiments.statistics.rows import Rows, groups
from hpcosim_experiments.statistics.summary import succeeded, summaries

# The tables of a report.

MAX_CLASSES = 10
"""Maximum number of classes of jobs in a table: those with most jobs."""

MAX_FAILED = 50
"""Maximum number of failed runs and missing pairs in a table."""

FEW_REPEATS = 10

OF_CLASSES = ("mean_wait_s", "mean_bounded_slowdown")
"""Metrics of classes of jobs, if the report's metrics are none of single jobs."""

SIZES = "cores"
"""The kind of classes by size of the jobs; other kinds are those of names, such as `user`."""

PERCENT = Measure("", "", "%", 0.01)


def overview_of(analysis: Analysis) -> list[Table]:
    """Return the tables of what was run: the axes, and the failed runs if there are any."""
    return _with_rows([axes_table(analysis), failed_table(analysis)])


def tables_of(analysis: Analysis) -> list[Table]:
    """Return the tables of results; those without rows are left out. None if all runs failed."""
    if len(analysis.failed) == len(analysis.runs):
        return []
    return _with_rows(
        [metrics_table(analysis), *comparison_tables(analysis), *breakdown_tables(analysis)]
    )


def _with_rows(tables: Sequence[Table]) -> list[Table]:
    return [cut(table) for table in tables if table.rows]


def axes_table(analysis: Analysis) -> Table:
    """Return the axes of the experiment with their labels and their role."""
    roles = dict.fromkeys(analysis.axes, "constant")
    roles |= dict.fromkeys(analysis.kept, "compared")
    roles |= dict.fromkeys(analysis.settings.tasks, "tasks")
    roles |= dict.fromkeys(analysis.plan.over, "repeats")
    rows = [
        [Cell(axis), Cell(roles[axis]), Cell(listed_labels(labels))]
        for axis, labels in analysis.axes.items()
    ]
    caption = " ".join(
        [
            "The axes of the experiment. Statistics are over the repeats.",
            *(sentence(one.text) for one in analysis.identical),
        ]
    )
    return Table("axes", "Axes", caption, ["axis", "role", "labels"], rows, 3)


def failed_table(analysis: Analysis) -> Table:
    """Return the failed runs with their errors."""
    failed = analysis.failed
    rows = [
        [
            *label_cells({axis: row[axis] for axis in analysis.axes}),
            Cell(str(row.get("error") or "")),
        ]
        for row in failed[:MAX_FAILED]
    ]
    caption = f"{len(failed)} of {len(analysis.runs)} runs failed; no statistic contains them."
    if len(failed) > MAX_FAILED:
        caption += f" The table has the first {MAX_FAILED}."
    head = [*analysis.axes, "error"]
    return Table("failed", "Failed runs", caption, head, rows, len(head))


OVERRUNS = {
    "jobs_timed_out": "Jobs timed out, all runs",
    "jobs_over_requested_time": "Jobs over requested time, all runs",
}
"""Metrics with a column of their own where a run has such jobs: the total of the runs."""


def metrics_table(analysis: Analysis) -> Table:
    """Return the statistic of each metric with its interval, by combination."""
    found = analysis.summaries(analysis.kept, analysis.settings.metrics)
    succeeding = groups([row for row in analysis.rows if succeeded(row)], *analysis.kept)
    runs = [part_of(len(succeeding.get(tuple(one.labels.values()), ())), one.runs) for one in found]
    columns = [
        column_of(analysis.measures[name], [one.estimates[name] for one in found])
        for name in analysis.settings.metrics
    ]
    for name, title in OVERRUNS.items():
        totals = [
            sum(int(row.get(name) or 0) for row in succeeding.get(tuple(one.labels.values()), ()))
            for one in found
        ]
        if any(totals):
            columns.append((title, [Cell(f"{total:,}") for total in totals]))
    return Table(
        "metrics",
        "Metrics",
        _caption(analysis, "runs"),
        [*analysis.kept, "runs", *(title for title, _ in columns)],
        rows_of([one.labels for one in found], runs, [cells for _, cells in columns]),
        len(analysis.kept),
    )


def comparison_tables(analysis: Analysis) -> list[Table]:
    """Return the paired differences to the baseline, the relative ones, and the missing pairs."""
    baseline = analysis.settings.baseline
    found = analysis.compared()
    if baseline is None or not found:
        return []
    metrics, labels = analysis.settings.metrics, [one.labels for one in found]
    pairs = [part_of(one.pairs, one.pairs + len(one.missing)) for one in found]
    named = labels_text(baseline)
    differences = [
        column_of(_absolute(analysis.measures[name]), [one.differences[name] for one in found], 0.0)
        for name in metrics
    ]
    changes = []
    for name in metrics:
        percent = PERCENT._replace(title=analysis.measures[name].title)
        changes.append(column_of(percent, [_less_one(one.ratios[name]) for one in found], 0.0))
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
        rows = rows_of(labels, pairs, [cells for _, cells in columns])
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
        column_of(
            measure_of(name, [row.get(name) for row in shown]), [o.estimates[name] for o in found]
        )
        for name in names
    ]
    caption = _caption(analysis, "runs")
    if len(jobs) > MAX_CLASSES:
        caption += f" The table has the {MAX_CLASSES} of {len(jobs)} classes with most jobs."
    return Table(
        f"by-{kind}",
        f"Metrics by {'size of the jobs' if kind == SIZES else kind}",
        caption,
        [*analysis.kept, kind, "runs", *(title for title, _ in columns)],
        rows_of(
            [one.labels for one in found], [str(one.runs) for one in found], [c for _, c in columns]
        ),
        len(kept),
    )


def _absolute(measure: Measure) -> Measure:
    """Return the measure of differences of a measure: those of percentages have their own unit."""
    return measure._replace(unit="percentage points") if measure.unit == "%" else measure


def _less_one(ratio: Estimate) -> Estimate:
    """Return a ratio as a relative difference."""
    return ratio._replace(value=ratio.value - 1, low=ratio.low - 1, high=ratio.high - 1)


def _caption(analysis: Analysis, counted: str) -> str:
    """Return the statistic, the interval and n of a table."""
    parts = [f"{sentence(statistic_text(analysis.plan))}."]
    parts.append(averaged_text(analysis.plan.tasks))
    if (repeats := _most_repeats(analysis)) > 1:
        parts.append(f"In brackets: {interval_text(analysis.plan.bootstrap)}.")
        if repeats < FEW_REPEATS:
            parts.append(f"With fewer than {FEW_REPEATS} repeats, intervals are too narrow.")
    parts.append(f"n is in the column {counted}.")
    return " ".join(filter(None, parts))


def _most_repeats(analysis: Analysis) -> int:
    """Return the largest number of runs of a combination that count."""
    kept = [axis for axis in analysis.axes if axis not in analysis.plan.over]
    return max(map(len, groups(analysis.rows, *kept).values()), default=0)


def _first_number(text: str) -> tuple[float, str]:
    """Return a key that sorts classes by their first number."""
    found = re.match(r"\d+", text)
    return (float(found[0]) if found else float("inf"), text)


PROVENANCE = ("hpcosim", "python", "git_commit")
"""Columns of the rows that say what made them, without those that differ by combination."""

MAX_VALUES = 3


class Content(NamedTuple):
    """The content of a report.

    Attributes:
        facts: pairs of a name and a text: the number of runs, what made them, and the
            figures that are left out.
        overview: the tables of what was run.
        tables: the tables of results.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    overview: Sequence[Table]
    figures: Sequence[DrawnFigure]
    tables: Sequence[Table]


def content_of(analysis: Analysis, figures: Figures) -> Content:
    """Return the content of a report."""
    failed = len(analysis.failed)
    axes = [f"{len(labels)} x {axis}" for axis, labels in analysis.axes.items() if len(labels) > 1]
    facts = [
        ("runs", f"{len(analysis.runs):,}, of which {failed:,} failed"),
        *([("axes", listed(axes))] if axes else []),
        *_provenance(analysis),
        *(("figure left out", text) for text in figures.left_out),
    ]
    title = f"Experiment {analysis.name}"
    return Content(title, facts, overview_of(analysis), figures.drawn, tables_of(analysis))


def _provenance(analysis: Analysis) -> list[tuple[str, str]]:
    """Return the values of each column of provenance."""
    found = []
    for name in PROVENANCE:
        values = list(dict.fromkeys(str(row[name]) for row in analysis.runs if row.get(name)))
        if values:
            more = f" and {len(values) - MAX_VALUES} more" if len(values) > MAX_VALUES else ""
            found.append((name.replace("_", " "), ", ".join(values[:MAX_VALUES]) + more))
    return found
