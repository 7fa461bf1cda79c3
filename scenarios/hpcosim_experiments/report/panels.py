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

from hpcosim_experiments.whole_files import write_whole
from hpcosim_view.figures.style import COLOURS, drawing
from hpcosim_view.runs import Floats

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
            rows, columns, squeeze=False, figsize=size, layout="constrained", **more
        )
        try:
            yield list(grid.flat)
            for path in files:
                content = BytesIO()
                form, metadata = path.suffix.removeprefix("."), UNDATED.get(path.suffix)
                figure.savefig(content, format=form, dpi=dpi, metadata=metadata)
                write_whole(path, content.getvalue())
        finally:
            pyplot.close(figure)


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
