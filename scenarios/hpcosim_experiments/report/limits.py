"""Limits of a report: figures with too many labels are left out, long tables are cut."""

from __future__ import annotations

from collections.abc import Sequence

from hpcosim_experiments.report.analysis import Analysis
from hpcosim_experiments.report.cells import Table
from hpcosim_experiments.report.charts import marker_axis
from hpcosim_experiments.report.settings import AXIS_KEYS, FigureSettings, LineFigure, ParetoFigure

MAX_LABELS = 30
"""Maximum number of ticks, legend entries or panels that an axis gives a figure."""

MAX_ROWS = 1000
"""Maximum number of rows of a table."""

SHOWN_LABELS = 10
"""Number of labels that are listed of an axis with more than `MAX_LABELS`."""


def crowded(analysis: Analysis, figure: FigureSettings) -> str:
    """Return why a figure has no room for its labels; empty: it has.

    The numbers along the horizontal axis of a line figure need no room of their own.
    """
    keys = [
        key
        for key in AXIS_KEYS[type(figure)]
        if not isinstance(figure, LineFigure) or key != "axis"
    ]
    axes = [getattr(figure, key) for key in keys]
    if isinstance(figure, ParetoFigure):
        axes.append(marker_axis(analysis, figure))
    counts = {axis: len(analysis.axes[axis]) for axis in axes if axis}
    return ", ".join(
        f"{axis} has {count:,} labels and a figure has room for {MAX_LABELS}"
        for axis, count in counts.items()
        if count > MAX_LABELS
    )


def cut(table: Table) -> Table:
    """Return a table without the rows after the first `MAX_ROWS`; its caption says so."""
    if len(table.rows) <= MAX_ROWS:
        return table
    more = (
        f"The table has the first {MAX_ROWS:,} of {len(table.rows):,} rows; results.parquet (or "
        f"results.csv) has all runs."
    )
    return table._replace(rows=table.rows[:MAX_ROWS], caption=f"{table.caption} {more}")


def listed_labels(labels: Sequence[object]) -> str:
    """Return the labels of an axis, or the first ones and the number of all."""
    if len(labels) <= MAX_LABELS:
        return ", ".join(map(str, labels))
    return f"{', '.join(map(str, labels[:SHOWN_LABELS]))}, ... ({len(labels):,} labels)"
