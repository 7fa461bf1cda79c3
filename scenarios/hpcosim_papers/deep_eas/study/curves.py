"""Figure 4: learning curves of the agents, compared with ESJF on the same sequences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpcosim_experiments.report.markdown import document, table
from hpcosim_experiments.report.panels import panels, titled
from hpcosim_experiments.statistics.rows import Rows, read_rows
from hpcosim_papers.deep_eas.study.cases import BUSIEST, PAPERS_CURVE, DeepEasTask
from hpcosim_papers.deep_eas.study.sweep import ESJF, FORMS
from hpcosim_papers.deep_eas.study.training import CURVES
from hpcosim_view.figures.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOUR = dict(zip(FORMS, COLOURS, strict=False))
PUBLISHED_CHANGE = -42.88
"""Change of the paper's agent from ESJF, %."""

AXIS_END = 2.0
"""Upper limit of the axis, relative to ESJF."""

Points = Sequence[tuple[float, float]]
"""Elapsed training time, min, and validation score relative to ESJF."""


def curve_of(task: DeepEasTask, source: Path) -> Rows:
    """Return the learning curve of a training, from the folder of a study."""
    return read_rows(source / CURVES / f"{task.name}.csv", ("iteration", "validation", "seconds"))


def summary(tasks: Sequence[DeepEasTask], source: Path) -> str:
    """Return the learning speed of each agent as Markdown."""
    lines = []
    for task in tasks:
        curve = curve_of(task, source)
        points = validations(curve)
        minutes, last = points[-1]
        cells = [task.scenario, FORMS[task.form], f"{task.seed}", f"{curve[-1]['iteration']}"]
        cells += [f"{minutes:.1f}", _first(points, 1.0), _first(points, 0.6)]
        lines.append([*cells, f"{min(value for _, value in points):.3f}", f"{last:.3f}"])
    head = ["trained on", "form", "seed", "iterations", "minutes", "below ESJF after (min)"]
    return document(
        ["# Figure 4: learning"],
        [
            "Normalised energy-delay product of greedy actions on 100 validation sequences, "
            "divided by ESJF's. Minutes are wall-clock time on one processor, with another "
            "training in parallel."
        ],
        table([*head, "40 % below after (min)", "best", "final"], lines),
    )


def _first(points: Iterable[tuple[float, float]], below: float) -> str:
    return next((f"{minutes:.1f}" for minutes, value in points if value < below), "never")


def draw(path: Path, tasks: Sequence[DeepEasTask], source: Path) -> None:
    """Draw the learning curves over training time, at the paper's rate and at the busiest."""
    with panels(path, 1, 2, (10.0, 4.0), sharey=True) as grid:
        for axes, scenario in zip(grid, (PAPERS_CURVE, BUSIEST), strict=True):
            _draw(axes, [task for task in tasks if task.scenario == scenario], source)
            titled(axes, f"{scenario}: validation score of greedy actions")
            axes.set_xlabel("minutes of training, one processor")
        grid[0].set_ylim(0.4, AXIS_END)
        grid[1].axhline(1.0 + PUBLISHED_CHANGE / 100.0, color="black", linestyle=":", linewidth=1.0)
        grid[1].annotate(
            "the paper's agent",
            (0.98, 1.0 + PUBLISHED_CHANGE / 100.0),
            fontsize=8,
            ha="right",
            va="bottom",
            xycoords=("axes fraction", "data"),
        )


def _draw(axes: Axes, tasks: Sequence[DeepEasTask], source: Path) -> None:
    axes.axhline(1.0, color=COLOURS[7], linewidth=1.5, label=ESJF.upper())
    for task in sorted(tasks, key=lambda task: list(FORMS).index(task.form)):
        minutes, values = zip(*validations(curve_of(task, source)), strict=True)
        title = FORMS[task.form] if task.seed == 0 else None
        axes.plot(minutes, values, color=COLOUR[task.form], linewidth=1.0, label=title)
    axes.legend(frameon=False, fontsize=8)


def validations(curve: Rows) -> Points:
    """Return the points of a curve with a validation."""
    points, seconds = [], 0.0
    for row in curve:
        seconds += row["seconds"]
        if not math.isnan(row["validation"]):
            points.append((seconds / 60.0, row["validation"]))
    return points
