"""The picture of other clusters: figure 17."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpcosim_scenarios.figures.schedule import COLOURS
from hpcosim_studies.canvas import panels, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHADES = (COLOURS[0], COLOURS[4], COLOURS[2], COLOURS[3], COLOURS[5])
OF_TIMEOUTS = ("#555555", "#bbbbbb")
WIDTH = 0.8
"""Of a group of bars; the next begins at 1."""


class Bars(NamedTuple):
    """A panel.

    Attributes:
        title: of its values.
        values: by group and bar: those of every seed.
        notes: by group and bar: what stands on it, where something does.
    """

    title: str
    values: Mapping[str, Mapping[str, Sequence[float]]]
    notes: Mapping[str, Mapping[str, str]]


def draw_sensitivity(path: Path, bars: Sequence[Bars], beside: str) -> None:
    """Draw two panels a line, in each a group of bars for a cluster; seeds are dots on a mean.

    Raises:
        FigureError: matplotlib is missing, or the file can't be written.
    """
    lines = -(-len(bars) // 2)
    with panels(path, lines, 2, (11.5, 3.1 * lines + 0.5)) as all_axes:
        for number, (axes, panel) in enumerate(zip(all_axes, bars, strict=True)):
            _draw(axes, panel)
            titled(axes, f"({chr(ord('a') + number)})")
            axes.set_ylabel(panel.title)
        all_axes[0].figure.legend(
            *all_axes[0].get_legend_handles_labels(),
            loc="outside upper center",
            ncols=3,
            frameon=False,
            title=f"beside the {beside} job scheduler; on timeouts: minutes",
        )


def _draw(axes: Axes, panel: Bars) -> None:
    names = list(dict.fromkeys(name for group in panel.values.values() for name in group))
    width = WIDTH / len(names)
    for number, name in enumerate(names):
        from_end = len(names) - number
        shade = OF_TIMEOUTS[-from_end] if from_end <= 2 else SHADES[number % len(SHADES)]
        at = [group + width * (number + 0.5) - WIDTH / 2 for group in range(len(panel.values))]
        seeds = [group.get(name, ()) for group in panel.values.values()]
        means = [statistics.fmean(values) if values else 0.0 for values in seeds]
        drawn = axes.bar(at, means, 0.94 * width, color=shade, label=name)
        notes = [panel.notes[group].get(name, "") for group in panel.values]
        notes = [panel.notes[group].get(name, "") for group in panel.values]
        axes.bar_label(drawn, notes, fontsize=7.5, padding=1)
        for place, values in zip(at, seeds, strict=True):
            if len(values) > 1:
                axes.plot([place] * len(values), values, ".", color="black", markersize=4)
    axes.set_xticks(range(len(panel.values)), list(panel.values))
    axes.margins(y=0.1)
