"""The figures of a report: which ones, their files and their captions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcosim_experiments.report.analysis import Analysis
from hpcosim_experiments.report.cells import Table, caption_of, title_of
from hpcosim_experiments.report.panels import (
    GREY,
    OPEN,
    PALE,
    READABLE,
    box_plots,
    panels,
    plain_log,
    set_box_scales,
    set_scales,
    wide_range,
)
from hpcosim_experiments.report.settings import (
    AXIS_KEYS,
    METRIC_KEYS,
    BoxFigure,
    FigureSettings,
    HeatFigure,
    LineFigure,
    ParetoFigure,
    ReportSettings,
)
from hpcosim_experiments.report.units import Measure, with_digits
from hpcosim_experiments.statistics.bootstrap import Estimate
from hpcosim_experiments.statistics.rows import Label, Labels, where
from hpcosim_experiments.statistics.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MARKERS = "osD^vPX"
FRONT = "#c4c4c4"
HEAT_COLOURS = "cividis_r"
TICK_CHARACTERS = 11
"""Approximate number of characters per inch of an axis."""


ENDINGS = (".svg", ".pdf")
MAX_COLUMNS = 3
MAX_DEFAULT_PANELS = 6
LEGEND_CHARACTERS = 90
"""Approximate width of a panel's legend."""

SINGLE = (6.4, 4.0)
"""Size of a single panel, inches."""

SEVERAL = (3.6, 3.0)
"""Size of each of several panels, inches."""

STYLE: Mapping[str, Any] = {**OPEN, "text.parse_math": False}
"""Labels are text: a dollar sign has no meaning."""


MAX_LABELS = 30
"""Maximum number of ticks, legend entries or panels that an axis gives a figure."""

MAX_ROWS = 1000
"""Maximum number of rows of a table."""

SHOWN_LABELS = 10
"""Number of labels that are listed of an axis with more than `MAX_LABELS`."""


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


class DrawnFigure(NamedTuple):
    """A figure of a report.

    Attributes:
        name: name of its files, without their suffix.
    """

    name: str
    title: str
    caption: str


class Figures(NamedTuple):
    """The figures of a report.

    Attributes:
        drawn: those that are drawn.
        left_out: a sentence about each that has too many labels.
    """

    drawn: Sequence[DrawnFigure] = ()
    left_out: Sequence[str] = ()


def draw_figures(folder: Path, analysis: Analysis) -> Figures:
    """Draw the figures of a report as SVG and PDF; none if all runs failed.

    Raises:
        FigureError: matplotlib is missing.
        StoreError: a file cannot be written.
    """
    if len(analysis.failed) == len(analysis.runs):
        return Figures()
    chosen = analysis.settings.figures
    if chosen is None:
        chosen = default_figures(analysis.settings, analysis.axes, analysis.kept)
    drawn, left_out = [], []
    for number, figure in enumerate(chosen, 1):
        if why := crowded(analysis, figure):
            left_out.append(f"{title_of(analysis, figure)}: {why}")
            continue
        name = f"{number:02d}-{_file_name(figure)}"
        _draw(folder / name, analysis, figure)
        drawn.append(DrawnFigure(name, title_of(analysis, figure), caption_of(analysis, figure)))
    return Figures(drawn, left_out)


def default_figures(
    settings: ReportSettings, axes: Mapping[str, Sequence[Label]], kept: Sequence[str]
) -> tuple[FigureSettings, ...]:
    """Return figures that suit the axes; none if no axis is compared.

    Args:
        settings: the section `report`.
        axes: labels of each axis, by its name.
        kept: the axes with several labels that are neither repeats nor tasks.
    """
    if not kept:
        return ()
    first, *more = settings.metrics
    by = next((axis for axis in kept if not numeric(axes[axis])), kept[0])
    along = next((axis for axis in kept if axis != by and numeric(axes[axis])), None)
    figures: list[FigureSettings] = []
    if along:
        figures += [LineFigure(name, along, by) for name in settings.metrics[:2]]
    elif numeric(axes[by]):
        figures += [LineFigure(name, by) for name in settings.metrics[:2]]
    panelled = along if along and len(axes[along]) <= MAX_DEFAULT_PANELS else None
    against = next((name for name in ("energy_j", "wasted_energy_j") if name in more), None)
    if more:
        figures.append(ParetoFigure(first, against or more[0], by, panelled))
    figures.append(BoxFigure(first, by, panelled))
    if other := along or next((axis for axis in kept if axis != by), None):
        figures.append(HeatFigure(first, other, by))
    return tuple(figures)


def numeric(labels: Sequence[Label]) -> bool:
    """Return whether all labels are numbers."""
    return all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in labels)


def _draw(path: Path, analysis: Analysis, figure: FigureSettings) -> None:
    """Draw a figure as SVG and PDF."""
    labels = analysis.axes[figure.panels] if figure.panels else [None]
    columns = min(len(labels), MAX_COLUMNS)
    rows = math.ceil(len(labels) / columns)
    width, height = SINGLE if len(labels) == 1 else SEVERAL
    files = [path.with_name(path.name + ending) for ending in ENDINGS]
    size = width * columns, height * rows
    with panels(files, rows, columns, size, style=STYLE) as drawn:
        for axes, label in zip(drawn, labels, strict=False):
            part = analysis
            if figure.panels and label is not None:
                part = analysis.within({figure.panels: label})
                axes.set_title(f"{figure.panels}: {label}", loc="left", fontsize=9)
            DRAW[type(figure)](axes, part, figure)
        for axes in drawn[len(labels) :]:
            axes.set_visible(False)
        if isinstance(figure, (LineFigure, ParetoFigure)):
            set_scales(drawn[: len(labels)], analysis, figure)
            _draw_legend(drawn[0], analysis, figure)
        elif isinstance(figure, BoxFigure):
            set_box_scales(drawn[: len(labels)], analysis, figure)


def _draw_legend(axes: Axes, analysis: Analysis, figure: LineFigure | ParetoFigure) -> None:
    """Draw the legend below the panels."""
    from matplotlib.lines import Line2D

    entries = legend_of(analysis, figure)
    if entries:
        handles = [Line2D([], [], markersize=5, linewidth=1.4, **style) for _, style in entries]
        texts = [text for text, _ in entries]
        width = figure_width(axes) / SINGLE[0] * LEGEND_CHARACTERS
        in_one_row = sum(len(text) + 6 for text in texts) <= width
        columns = len(texts) if in_one_row else max(1, int(width / (max(map(len, texts)) + 6)))
        axes.figure.legend(
            handles, texts, loc="outside lower center", ncols=columns, frameon=False, fontsize=8
        )


def _file_name(figure: FigureSettings) -> str:
    """Return kind, metrics and axes of a figure, as a name of a file."""
    keys = [*METRIC_KEYS[type(figure)], *AXIS_KEYS[type(figure)]]
    words = [str(figure.__struct_config__.tag), *(getattr(figure, key) or "" for key in keys)]
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the points that no other point dominates, by ascending first coordinate.

    A point dominates another one if it is smaller in one coordinate and not larger in the other.
    Of equal points the first is returned.

    Args:
        points: points whose coordinates are better if they are smaller.

    Returns:
        Indices into `points`.
    """
    found: list[int] = []
    for at in sorted(range(len(points)), key=lambda at: points[at]):
        if not found or points[at][1] < points[found[-1]][1]:
            found.append(at)
    return found


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


DRAW: Mapping[type[FigureSettings], Callable[[Any, Analysis, Any], None]] = {
    LineFigure: draw_lines,
    ParetoFigure: draw_pareto,
    BoxFigure: draw_boxes,
    HeatFigure: draw_heat_map,
}
