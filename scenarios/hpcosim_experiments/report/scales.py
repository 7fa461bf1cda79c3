"""Scales and ticks of panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hpcosim_experiments.report.analysis import Analysis
from hpcosim_experiments.report.panels import PALE
from hpcosim_experiments.report.settings import BoxFigure, LineFigure, ParetoFigure
from hpcosim_experiments.statistics.rows import groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE = 20.0
"""Ratio of the largest to the smallest value from which a scale is logarithmic."""

MAX_TICKS = 8
"""Maximum number of labels of an axis that all have a tick."""


def set_scales(
    drawn: Sequence[Axes], analysis: Analysis, figure: LineFigure | ParetoFigure
) -> None:
    """Set the scales, ticks and grid of all panels of a figure alike."""
    for axes in drawn:
        axes.grid(color=PALE, linewidth=0.6)
        axes.set_axisbelow(True)
    if isinstance(figure, ParetoFigure):
        _scale_points(drawn, analysis, figure)
    else:
        _scale_lines(drawn, analysis, figure)


def set_box_scales(drawn: Sequence[Axes], analysis: Analysis, figure: BoxFigure) -> None:
    """Make the scale of all panels logarithmic if that of one is."""
    values = [float(row[figure.metric]) for row in analysis.with_metric(figure.metric)]
    if any(axes.get_yscale() == "log" for axes in drawn) and min(values) > 0:
        for axes in drawn:
            axes.set_yscale("log")
            plain_log(axes.yaxis)


def wide_range(values: Sequence[float]) -> bool:
    """Return whether values are positive and the largest exceeds 20 times the smallest."""
    return bool(values) and min(values) > 0 and max(values) > WIDE * min(values)


def plain_log(axis: Any) -> None:
    """Write the ticks of a logarithmic axis as plain numbers: 1, 2, 5, 10, 20."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    decades = high / low > 1000
    axis.set_major_locator(LogLocator(subs=(1.0,) if decades else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def _scale_lines(drawn: Sequence[Axes], analysis: Analysis, figure: LineFigure) -> None:
    kept = [axis for axis in (figure.axis, figure.by, figure.panels) if axis]
    means = _means(analysis, kept, figure.metric)
    log = wide_range(means) if figure.log is None else figure.log
    labels = [float(label) for label in analysis.axes[figure.axis]]
    for axes in drawn:
        if wide_range(labels):
            axes.set_xscale("log")
            axes.minorticks_off()
        if len(labels) <= MAX_TICKS:
            texts = [str(label) for label in analysis.axes[figure.axis]]
            axes.set_xticks(labels, texts)
        elif wide_range(labels):
            plain_log(axes.xaxis)
        if log:
            axes.set_yscale("log")
            plain_log(axes.yaxis)
        elif min(means, default=0.0) >= 0:
            axes.set_ylim(bottom=0.0)


def _scale_points(drawn: Sequence[Axes], analysis: Analysis, figure: ParetoFigure) -> None:
    for metric, way in ((figure.x, "x"), (figure.y, "y")):
        means = _means(analysis, analysis.kept, metric)
        if wide_range(means) if figure.log is None else metric in figure.log:
            for axes in drawn:
                axes.set(**{f"{way}scale": "log"})
                plain_log(getattr(axes, f"{way}axis"))


def _means(analysis: Analysis, kept: Sequence[str], metric: str) -> list[float]:
    """Return the mean of the runs of each combination, in the unit of the measure."""
    measure = analysis.measures[metric]
    found = [analysis.with_metric(metric, rows) for rows in groups(analysis.rows, *kept).values()]
    return [measure.mean(rows) for rows in found if rows]
