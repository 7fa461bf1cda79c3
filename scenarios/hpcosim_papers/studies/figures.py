"""Helpers that draw the figures of studies with matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hpcosim_experiments.report.panels import PALE, READABLE
from hpcosim_view.figure import COLOURS
from hpcosim_view.run.recording import recorded_boxes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.projections.polar import PolarAxes

    from hpcosim_sim.engine.simulation import Simulation

MAX_EDGED_CORES = 200
"""Maximum number of cores of a Gantt chart whose boxes have edges."""

RADAR_LINES = ("-", "--", "-.", ":")


def horizontal_bars(
    axes: Axes,
    labels: Sequence[str],
    values: Sequence[float],
    colours: Sequence[str],
    deviations: Sequence[float] | None = None,
    ticks: int = 5,
) -> None:
    """Draw a horizontal bar per label, the first at the top.

    Args:
        values: lengths of the bars.
        deviations: half lengths of the error bars; None: no error bars.
        ticks: maximum number of intervals of the value axis.
    """
    axes.barh(range(len(labels)), values, xerr=deviations, color=colours)
    axes.set_yticks(range(len(labels)), list(labels), fontsize=7)
    axes.invert_yaxis()
    axes.locator_params(axis="x", nbins=ticks)
    axes.ticklabel_format(axis="x", style="plain")
    axes.tick_params(axis="x", labelsize=7)


def band(axes: Axes, curves: Sequence[Sequence[float]]) -> None:
    """Draw the mean of several curves and the range from their minimum to their maximum.

    Args:
        curves: values at x = 1, 2, ..., all of the same length.
    """
    values = np.array(curves)
    at = np.arange(1, values.shape[1] + 1)
    axes.fill_between(at, values.min(axis=0), values.max(axis=0), color=COLOURS[4], alpha=0.4)
    axes.plot(at, values.mean(axis=0), color=COLOURS[0], linewidth=1.0)


def radar(axes: PolarAxes, spokes: Sequence[str], shapes: Mapping[str, Sequence[float]]) -> None:
    """Draw a radar chart.

    Args:
        spokes: titles of the spokes, clockwise from the top.
        shapes: values in [0, 1], one for each spoke, by label of the line.
    """
    turns = [2 * math.pi * spoke / len(spokes) for spoke in range(len(spokes))]
    axes.set_theta_offset(math.pi / 2)
    axes.set_theta_direction(-1)
    for number, (label, values) in enumerate(shapes.items()):
        colour = READABLE[number % len(READABLE)]
        around, closed = [*turns, turns[0]], [*values, values[0]]
        style = RADAR_LINES[number % len(RADAR_LINES)]
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
    axes.grid(color=PALE, linewidth=0.6)


def gantt(axes: Axes, simulation: Simulation, kinds: Sequence[int]) -> None:
    """Draw the schedule of a simulation: jobs on cores over time."""
    from matplotlib.collections import PolyCollection

    recording, platform = simulation.recording, simulation.cluster.platform
    cores_by_node, columns = platform.cores_by_node(), recorded_boxes(platform, recording)
    rows = np.repeat(columns["start.job"], columns["start.boxes"]).tolist()
    shapes, colours = [], []
    for row, first, last in zip(rows, columns["box.first"], columns["box.last"], strict=True):
        left, right, top = recording.start_s[row], recording.end_s[row], last + 1
        shapes.append([(left, first), (right, first), (right, top), (left, top)])
        colours.append(COLOURS[kinds[row] % len(COLOURS)])
    edged = sum(cores_by_node) <= MAX_EDGED_CORES
    edges = {"edgecolors": "white", "linewidths": 0.3} if edged else {"edgecolors": "none"}
    axes.add_collection(PolyCollection(shapes, facecolors=colours, zorder=2, **edges))
    for edge in np.cumsum(cores_by_node)[:-1]:
        axes.axhline(edge, color=PALE, linewidth=0.5, zorder=1)
    axes.set_ylim(0, sum(cores_by_node))
    axes.set_ylabel("core", fontsize=8)
    axes.tick_params(labelsize=7)
