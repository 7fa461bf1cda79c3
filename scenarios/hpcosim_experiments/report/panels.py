"""Panels of figures, drawn with matplotlib."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcosim_experiments.report.analysis import Analysis
from hpcosim_experiments.report.settings import BoxFigure, LineFigure, ParetoFigure
from hpcosim_experiments.statistics.rows import groups
from hpcosim_experiments.whole_files import write_whole
from hpcosim_view.figure import COLOURS, drawing
from hpcosim_view.run.extracts import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text


GREY = "#666666"
PALE = "#dddddd"
OPEN: Mapping[str, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
"""Style of panels without a frame at the top and at the right."""

READABLE = (*COLOURS[:6], COLOURS[7])
"""Colours without yellow, which is invisible on white."""

UNDATED: Mapping[str, Mapping[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""Metadata to leave out, by suffix of the file: the same figure gives the same bytes."""


WIDE = 20.0
"""Ratio of the largest to the smallest value from which a scale is logarithmic."""

MAX_TICKS = 8
"""Maximum number of labels of an axis that all have a tick."""


@contextmanager
def panels(
    paths: Path | Sequence[Path],
    rows: int,
    columns: int,
    size: tuple[float, float],
    *,
    style: Mapping[str, Any] = OPEN,
    dpi: int = 130,
    **more: Any,
) -> Iterator[list[Any]]:
    """Yield the panels of a figure, row by row, and write the figure on exit.

    Args:
        paths: output file, or several; their suffixes are the formats.
        rows: number of rows of panels.
        columns: number of columns of panels.
        size: width and height, inches.
        style: `rcParams` of matplotlib.
        dpi: resolution, pixels per inch.
        more: further arguments of `pyplot.subplots`.

    Raises:
        FigureError: matplotlib is missing.
        StoreError: a file cannot be written.
    """
    mpl, pyplot = drawing()
    files = [paths] if isinstance(paths, Path) else paths
    with _quiet(), mpl.rc_context({**style, "svg.hashsalt": files[0].stem}):
        figure, grid = pyplot.subplots(
            rows, columns, squeeze=False, figsize=size, dpi=dpi, layout="constrained", **more
        )
        try:
            yield list(grid.flat)
            _lay_out(figure, files[0])
            for path in files:
                content = BytesIO()
                form, metadata = path.suffix.removeprefix("."), UNDATED.get(path.suffix)
                figure.savefig(content, format=form, dpi=dpi, metadata=metadata)
                write_whole(path, content.getvalue())
        finally:
            pyplot.close(figure)


def _lay_out(figure: Any, path: Path) -> None:
    """Lay out a figure once, as a file of this format is laid out.

    `savefig` draws a figure with a layout engine twice, the first time for the layout only.
    """
    from matplotlib.backend_bases import get_registered_canvas_class

    get_registered_canvas_class(path.suffix.removeprefix("."))(figure)
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine(None)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep matplotlib's advice, such as on missing glyphs, from the user, who cannot follow it."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        logger.setLevel(level)


def titled(axes: Axes, title: str) -> None:
    """Draw the title and the horizontal grid lines of a panel."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)


def text_on_white(text: Text) -> None:
    """Draw a white edge around a text, which makes it legible on lines."""
    from matplotlib.patheffects import withStroke

    text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])


def box_plots(axes: Axes, values: Sequence[Floats], colours: Sequence[str]) -> None:
    """Draw quartiles, median, minimum and maximum of several samples.

    The axis is logarithmic if the largest value exceeds 20 times the smallest median; with values
    of 0 it is linear near 0.
    """
    drawn = axes.boxplot(
        list(values), whis=(0, 100), widths=0.6, patch_artist=True, medianprops={"color": "black"}
    )
    for box, colour in zip(drawn["boxes"], colours, strict=True):
        box.set_facecolor(colour)
    medians = [float(np.median(each)) for each in values]
    most, least = (float(pick([pick(each) for each in values])) for pick in (np.max, np.min))
    if most > 20 * min(medians) and least > 0:
        axes.set_yscale("log")
    elif most > 20 * min(medians) and max(medians) > 0:
        axes.set_yscale("symlog", linthresh=max(medians) / 10, linscale=0.5)
        axes.set_ylim(bottom=0)


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
