"""What the figures of studies share: panels, titles, greys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcosim_scenarios.errors import FigureError
from hpcosim_scenarios.figures.schedule import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

GREY = "#666666"
PALE = "#dddddd"


@contextmanager
def panels(
    path: Path, rows: int, columns: int, size: tuple[float, float], **more: Any
) -> Iterator[list[Any]]:
    """Lend the panels of a figure, row by row, and write it when they are drawn.

    Args:
        path: the PNG.
        rows: of panels.
        columns: likewise.
        size: width and height, inches.
        more: for `pyplot.subplots`.

    Raises:
        FigureError: matplotlib is missing, or the file can't be written.
    """
    mpl, pyplot = drawing()
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure, grid = pyplot.subplots(
            rows, columns, squeeze=False, figsize=size, layout="constrained", **more
        )
        try:
            yield list(grid.flat)
            figure.savefig(path, dpi=130)
        except OSError as error:
            raise FigureError(f"can't write {path}: {error.strerror or error}") from None
        finally:
            pyplot.close(figure)


def titled(axes: Axes, title: str) -> None:
    """Write what a panel shows, and draw lines to read values by."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)


def text_on_white(text: Text) -> None:
    """Keep a text apart from the lines it stands on."""
    from matplotlib.patheffects import withStroke

    text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
