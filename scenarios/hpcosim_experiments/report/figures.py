"""The figures of a report: which ones, their files and their captions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcosim_experiments.report.analysis import Analysis
from hpcosim_experiments.report.captions import caption_of, title_of
from hpcosim_experiments.report.charts import (
    draw_boxes,
    draw_heat_map,
    draw_lines,
    draw_pareto,
    figure_width,
    legend_of,
)
from hpcosim_experiments.report.limits import crowded
from hpcosim_experiments.report.panels import OPEN, panels
from hpcosim_experiments.report.scales import set_box_scales, set_scales
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
from hpcosim_experiments.statistics.rows import Label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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

DRAW: Mapping[type[FigureSettings], Callable[[Any, Analysis, Any], None]] = {
    LineFigure: draw_lines,
    ParetoFigure: draw_pareto,
    BoxFigure: draw_boxes,
    HeatFigure: draw_heat_map,
}


class DrawnFigure(NamedTuple):
    """A figure of a report.

    Attributes:
        name: name of its files, without their suffix.
        title: its title.
        caption: its caption.
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

    Args:
        folder: existing output folder.
        analysis: the results.

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
