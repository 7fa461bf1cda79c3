"""Job numbers in a Gantt chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONT_SIZES = (8.0, 7.0, 6.0, 5.0)
MARGIN_PIXELS = 1.5
DARK, LIGHT = "#111111", "#ffffff"


def write_numbers(axes: Axes, jobs: Sequence[tuple[str, str, Any]]) -> None:
    """Write numbers into rectangles, each in the largest font that fits; others are left out.

    Call it when everything else is drawn: the layout decides how large the rectangles are.

    Args:
        axes: the chart.
        jobs: number, colour, and left, right, bottom and top of a rectangle of each job.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure: Any = axes.figure
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the numbers do not change the layout
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    for number, colour, (left, right, bottom, top) in jobs:
        (x0, y0), (x1, y1) = axes.transData.transform([(left, bottom), (right, top)])
        text = axes.text(
            (left + right) / 2,
            (bottom + top) / 2,
            number,
            ha="center",
            va="center_baseline",
            color=_readable_on(colour),
            clip_on=True,
            parse_math=False,
        )
        for rotation, size in ((turn, size) for turn in (0, 90) for size in FONT_SIZES):
            text.set(rotation=rotation, fontsize=size)
            extent = text.get_window_extent(renderer)
            wide, high = extent.width + 2 * MARGIN_PIXELS, extent.height + 2 * MARGIN_PIXELS
            if wide <= x1 - x0 and high <= abs(y1 - y0):
                break
        else:
            text.remove()


def _readable_on(colour: str) -> str:
    """Return the text colour with the larger contrast to a colour (WCAG 2.1, 1.4.3)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return DARK if (luminance + 0.05) ** 2 > 1.05 * 0.05 else LIGHT
