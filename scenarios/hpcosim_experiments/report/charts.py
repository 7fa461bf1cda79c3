"""Charts of the statistics of an experiment, each drawn into panels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcosim_experiments.report.analysis import Analysis
from hpcosim_experiments.report.measures import Measure
from hpcosim_experiments.report.panels import GREY, PALE, READABLE, box_plots
from hpcosim_experiments.report.scales import plain_log, wide_range
from hpcosim_experiments.report.settings import BoxFigure, HeatFigure, LineFigure, ParetoFigure
from hpcosim_experiments.report.units import with_digits
from hpcosim_experiments.statistics.bootstrap import Estimate
from hpcosim_experiments.statistics.pareto import front
from hpcosim_experiments.statistics.rows import Label, Labels, where
from hpcosim_experiments.statistics.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "osD^vPX"
FRONT = "#c4c4c4"
HEAT_COLOURS = "cividis_r"
TICK_CHARACTERS = 11
"""Approximate number of characters per inch of an axis."""


def draw_lines(axes: Axes, analysis: Analysis, figure: LineFigure) -> None:
    """Draw the mean against the axis, and its interval as a band, for each label of `by`."""
    measure = analysis.measures[figure.metric]
    kept = [figure.axis, *([figure.by] if figure.by else [])]
    found = analysis.summaries(kept, [figure.metric])
    for number, label in enumerate(analysis.axes[figure.by] if figure.by else [None]):
        line = [one for one in found if figure.by is None or one.labels[figure.by] == label]
        line.sort(key=lambda one: float(one.labels[figure.axis]))
        at = [float(one.labels[figure.axis]) for one in line]
        estimates = [one.estimates[figure.metric] for one in line]
        style = _style(number)
        middle, low, high = _scaled(estimates, measure)
        axes.plot(at, middle, label=str(label), markersize=4.5, linewidth=1.4, **style)
        if any(one.has_interval for one in estimates):
            axes.fill_between(at, low, high, color=style["color"], alpha=0.18, linewidth=0)
    axes.set_xlabel(figure.axis)
    axes.set_ylabel(measure.named)


def draw_pareto(axes: Axes, analysis: Analysis, figure: ParetoFigure) -> None:
    """Draw each combination as a point with the intervals of both metrics, and the front.

    The colour is the label of `by`, the marker that of the first other axis.
    """
    x, y = analysis.measures[figure.x], analysis.measures[figure.y]
    found = analysis.summaries(analysis.kept, [figure.x, figure.y])
    found = [one for one in found if all(np.isfinite(_point(one, figure)))]
    signs = [-1 if name in figure.maximise else 1 for name in (figure.x, figure.y)]
    at = front([(signs[0] * a, signs[1] * b) for a, b in (_point(one, figure) for one in found)])
    if len(at) > 1:
        best = np.array([_point(found[one], figure) for one in at]) / (x.scale, y.scale)
        axes.plot(*best.T, color=FRONT, linewidth=5, drawstyle="steps-post", zorder=1)
    for one in found:
        across, up = one.estimates[figure.x], one.estimates[figure.y]
        axes.errorbar(
            across.value / x.scale,
            up.value / y.scale,
            xerr=_arms(across, x),
            yerr=_arms(up, y),
            linestyle="none",
            markersize=6,
            elinewidth=0.7,
            **_point_style(analysis, figure, one.labels),
        )
    axes.set_xlabel(x.named)
    axes.set_ylabel(y.named)


def draw_boxes(axes: Axes, analysis: Analysis, figure: BoxFigure) -> None:
    """Draw a box of the values of all runs for each label of the axis."""
    measure = analysis.measures[figure.metric]
    runs = analysis.with_metric(figure.metric)
    labels = analysis.axes[figure.by]
    samples = {label: measure.values(where(runs, **{figure.by: label})) for label in labels}
    shown = {label: np.array(values) for label, values in samples.items() if values}
    if shown:
        colours = [READABLE[labels.index(label) % len(READABLE)] for label in shown]
        box_plots(axes, list(shown.values()), colours)
    _name_ticks(axes, list(shown))
    axes.set_xlabel(figure.by)
    axes.set_ylabel(measure.named)
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)


def draw_heat_map(axes: Axes, analysis: Analysis, figure: HeatFigure) -> None:
    """Draw the mean of each pair of labels as a coloured cell with its number."""
    found = analysis.summaries([figure.x, figure.y], [figure.metric])
    columns, rows = analysis.axes[figure.x], analysis.axes[figure.y]
    measure = with_digits(
        analysis.measures[figure.metric], [one.estimates[figure.metric].value for one in found]
    )
    cells = np.full((len(rows), len(columns)), np.nan)
    for one in found:
        at = rows.index(one.labels[figure.y]), columns.index(one.labels[figure.x])
        cells[at] = one.estimates[figure.metric].value / measure.scale
    log = wide_range(cells[np.isfinite(cells)].tolist())
    image = axes.imshow(cells, cmap=HEAT_COLOURS, aspect="auto", norm="log" if log else "linear")
    for (row, column), value in np.ndenumerate(cells):
        text = measure.text(float(value)) if math.isfinite(value) else "no result"
        dark = math.isfinite(value) and float(image.norm(float(value))) > 0.5  # type: ignore[arg-type]
        colour = "white" if dark else "black"
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
    _name_ticks(axes, columns, first=0)
    axes.set_yticks(range(len(rows)), [str(label) for label in rows])
    axes.set_xlabel(figure.x)
    axes.set_ylabel(figure.y)
    axes.spines[:].set_visible(False)
    bar = axes.figure.colorbar(image, ax=axes)
    bar.set_label(measure.named)
    if log:
        plain_log(bar.ax.yaxis)
    bar.outline.set_visible(False)


def _scaled(estimates: Sequence[Estimate], measure: Measure) -> Any:
    """Return values, lower and upper ends of intervals, in the unit of the measure."""
    numbers = np.array([(one.value, one.low, one.high) for one in estimates], dtype=np.float64)
    return numbers.reshape(-1, 3).T / measure.scale


def _point(one: Summary, figure: ParetoFigure) -> tuple[float, float]:
    return one.estimates[figure.x].value, one.estimates[figure.y].value


def _arms(one: Estimate, measure: Measure) -> Any:
    """Return the lengths of an error bar, below and above, or None without an interval."""
    if not one.has_interval:
        return None
    # An interval that is corrected for bias may leave out the value.
    arms = [max(one.value - one.low, 0.0), max(one.high - one.value, 0.0)]
    return np.array(arms).reshape(2, 1) / measure.scale


def _style(number: int) -> Mapping[str, Any]:
    """Return colour, marker and line of the label of a number; all differ between labels."""
    return {
        "color": READABLE[number % len(READABLE)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": ("-", "--", ":")[number // len(READABLE) % 3],
    }


def marker_axis(analysis: Analysis, figure: ParetoFigure) -> str | None:
    """Return the axis whose labels the markers of a Pareto plot show."""
    others = [axis for axis in analysis.kept if axis not in (figure.by, figure.panels)]
    return others[0] if others else None


def _point_style(analysis: Analysis, figure: ParetoFigure, labels: Labels) -> Mapping[str, Any]:
    style: dict[str, Any] = {"color": READABLE[0], "marker": MARKERS[0]}
    if figure.by:
        number = analysis.axes[figure.by].index(labels[figure.by])
        style = {key: _style(number)[key] for key in ("color", "marker")}
    if axis := marker_axis(analysis, figure):
        style["marker"] = MARKERS[analysis.axes[axis].index(labels[axis]) % len(MARKERS)]
    return style


def legend_of(
    analysis: Analysis, figure: LineFigure | ParetoFigure
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the entries of a legend: text, and colour, marker and line."""
    labels = analysis.axes[figure.by] if figure.by else ()
    entries = [(str(label), _style(number)) for number, label in enumerate(labels)]
    if isinstance(figure, LineFigure):
        return entries
    other = marker_axis(analysis, figure)
    point = {"linestyle": "none", **({"marker": "o"} if other else {})}
    entries = [(text, {**style, **point}) for text, style in entries]
    for number, label in enumerate(analysis.axes[other] if other else ()):
        marker = MARKERS[number % len(MARKERS)]
        entries.append((f"{other} {label}", {"color": GREY, "marker": marker, "linestyle": "none"}))
    return entries


def figure_width(axes: Axes) -> float:
    """Return the width of the figure of a panel, inches."""
    figure: Any = axes.figure
    return float(figure.get_figwidth())


def _name_ticks(axes: Axes, labels: Sequence[Label], first: int = 1) -> None:
    """Name the ticks of the horizontal axis; labels without room are drawn at an angle."""
    texts = [str(label) for label in labels]
    grid = axes.get_subplotspec()
    columns = grid.get_gridspec().ncols if grid else 1
    room = TICK_CHARACTERS * (figure_width(axes) / columns - 1)
    long = sum(len(text) + 2 for text in texts) > room
    angle: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(first, first + len(texts)), texts, **(angle if long else {}))
