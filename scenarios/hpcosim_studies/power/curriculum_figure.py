"""The picture of the curricula: figure 11."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpcosim_scenarios.figures.schedule import COLOURS
from hpcosim_studies.canvas import panels
from hpcosim_studies.power.readings import CALLED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHADES: Mapping[str, str] = {
    "easy to hard": COLOURS[2],
    "hard, easy, hard": COLOURS[0],
    "hard to easy": COLOURS[1],
    "no curriculum": COLOURS[7],
}


class Group(NamedTuple):
    """A panel.

    Attributes:
        title: of its values.
        values: by curriculum, one a seed.
        untrained: mean of networks that have not learned; None: unknown.
        timeout: of the best timeout.
    """

    title: str
    values: Mapping[str, Sequence[float]]
    untrained: float | None
    timeout: float


def draw_curricula(path: Path, groups: Sequence[Group], algorithm: str, timeout: str) -> None:
    """Draw a bar for the mean of each curriculum, and a dot for each seed, in a panel a measure.

    Args:
        path: the PNG.
        groups: the panels.
        algorithm: that trained them.
        timeout: what the best timeout is called.

    Raises:
        FigureError: matplotlib is missing, or the file can't be written.
    """
    with panels(path, 1, len(groups), (11.5, 4.4), sharey=True) as all_axes:
        for number, (axes, group) in enumerate(zip(all_axes, groups, strict=True)):
            _draw(axes, group, timeout)
            axes.set_title(f"({chr(ord('a') + number)}) {group.title}", loc="left", fontsize=10)
        figure = all_axes[0].figure
        figure.suptitle(f"{algorithm}; dots: seeds, bars: their mean", fontsize=10)
        figure.legend(
            *all_axes[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=6,
            frameon=False,
        )


def _draw(axes: Axes, group: Group, timeout: str) -> None:
    told: set[str] = set()
    for place, (name, values) in enumerate(group.values.items()):
        called = CALLED[name]
        label = called if called not in told else None
        told.add(called)
        axes.barh(place, statistics.fmean(values), color=SHADES[called], alpha=0.75, label=label)
        axes.plot(values, [place] * len(values), "o", color="black", markersize=3.5)
    axes.axvline(group.timeout, color=COLOURS[5], linestyle="--", linewidth=1.4, label=timeout)
    if group.untrained is not None:
        axes.axvline(
            group.untrained, color=COLOURS[3], linestyle=":", linewidth=1.8, label="untrained"
        )
    axes.set_yticks(range(len(group.values)), list(group.values))
    axes.set_ylim(len(group.values) - 0.5, -0.5)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
