"""The picture of scheduling metrics: figure 16."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpcosim_scenarios.figures.schedule import COLOURS
from hpcosim_studies.canvas import panels

if TYPE_CHECKING:
    from matplotlib.projections.polar import PolarAxes

STYLES = ("-", "--", "-.", ":")
SHADES = (*COLOURS[:6], COLOURS[7])
"""Without yellow, which can't be seen on white."""


class Radar(NamedTuple):
    """A panel.

    Attributes:
        title: of it.
        shapes: a value for each spoke, 0 to 1, by what has them.
    """

    title: str
    shapes: Mapping[str, Sequence[float]]


def draw_radars(path: Path, spokes: Sequence[str], radars: Sequence[Radar]) -> None:
    """Draw panels side by side, in each a shape for each manager: the larger, the better.

    Raises:
        FigureError: matplotlib is missing, or the file can't be written.
    """
    size = (5.8 * len(radars), 5.4)
    with panels(path, 1, len(radars), size, subplot_kw={"projection": "polar"}) as all_axes:
        for axes, radar in zip(all_axes, radars, strict=True):
            _draw(axes, spokes, radar)


def _draw(axes: PolarAxes, spokes: Sequence[str], radar: Radar) -> None:
    turns = [2 * math.pi * spoke / len(spokes) for spoke in range(len(spokes))]
    axes.set_theta_offset(math.pi / 2)
    axes.set_theta_direction(-1)
    for number, (label, values) in enumerate(radar.shapes.items()):
        colour, style = SHADES[number % len(SHADES)], STYLES[number % len(STYLES)]
        around, closed = [*turns, turns[0]], [*values, values[0]]
        axes.plot(around, closed, style, color=colour, linewidth=1.8, label=label)
        axes.fill(around, closed, color=colour, alpha=0.08)
    axes.set_xticks(turns, list(spokes))
    for text, turn in zip(axes.get_xticklabels(), turns, strict=True):
        sideways = math.sin(turn)
        text.set_horizontalalignment(
            "center" if abs(sideways) < 0.1 else "left" if sideways > 0 else "right"
        )
    axes.set_ylim(0, 1)
    axes.set_yticks([0.25, 0.5, 0.75, 1.0], ["", "0.5", "", "1"], color="#888888", fontsize=8)
    axes.set_rlabel_position(22)
    axes.spines["polar"].set_color("#cccccc")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_title(radar.title, fontsize=10, pad=14)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False, fontsize=8)
