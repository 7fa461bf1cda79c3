"""Figure 4: how agents learn, beside ESJF on the same sequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpcosim_scenarios.figures.schedule import COLOURS
from hpcosim_studies.deep_eas.cases import BUSIEST, PAPERS_CURVE, Trained
from hpcosim_studies.deep_eas.sweep import ESJF, FORMS
from hpcosim_studies.deep_eas.training import CURVES
from hpcosim_studies.figures import panels, titled
from hpcosim_studies.measures import document, table
from hpcosim_studies.rows import Rows, read_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOUR = dict(zip(FORMS, COLOURS, strict=False))
PAPERS = -42.88
"""Change of the paper's agent against ESJF, %."""

MOST = 2.0
"""The end of the axis, times ESJF."""

Points = Sequence[tuple[float, float]]
"""Minutes of training so far, and the validation score then, relative to ESJF's."""


def curve_of(task: Trained, source: Path) -> Rows:
    """Return the learning curve of a training, from the folder of a study."""
    return read_rows(source / CURVES / f"{task.name}.csv", ("iteration", "validation", "seconds"))


def summary(tasks: Sequence[Trained], source: Path) -> str:
    """Return how fast each agent learned, as Markdown."""
    lines = []
    for task in tasks:
        curve = curve_of(task, source)
        points = validations(curve)
        minutes, last = points[-1]
        cells = [task.scenario, FORMS[task.form], f"{task.seed}", f"{curve[-1]['iteration']}"]
        cells += [f"{minutes:.1f}", _first(points, 1.0), _first(points, 0.6)]
        lines.append([*cells, f"{min(value for _, value in points):.3f}", f"{last:.3f}"])
    head = ["trained on", "form", "seed", "iterations", "minutes", "first below ESJF (min)"]
    return document(
        ["# Figure 4: learning"],
        [
            "Best choices on 100 sequences of validation over what ESJF comes to there. Minutes on "
            "a clock on the wall, of one processor, beside another training."
        ],
        table([*head, "40 % below (min)", "least", "at the end"], lines),
    )


def _first(points: Iterable[tuple[float, float]], below: float) -> str:
    return next((f"{minutes:.1f}" for minutes, value in points if value < below), "never")


def draw(path: Path, tasks: Sequence[Trained], source: Path) -> None:
    """Draw the curves over training time, on the paper's rate and on the busiest."""
    with panels(path, 1, 2, (10.0, 4.0), sharey=True) as grid:
        for axes, scenario in zip(grid, (PAPERS_CURVE, BUSIEST), strict=True):
            _draw(axes, [task for task in tasks if task.scenario == scenario], source)
            titled(axes, f"{scenario}: best choices in validation / ESJF")
            axes.set_xlabel("minutes of training, one processor")
        grid[0].set_ylim(0.4, MOST)
        grid[1].axhline(1.0 + PAPERS / 100.0, color="black", linestyle=":", linewidth=1.0)
        grid[1].annotate(
            "the paper's agent",
            (0.98, 1.0 + PAPERS / 100.0),
            fontsize=8,
            ha="right",
            va="bottom",
            xycoords=("axes fraction", "data"),
        )


def _draw(axes: Axes, tasks: Sequence[Trained], source: Path) -> None:
    axes.axhline(1.0, color=COLOURS[7], linewidth=1.5, label=ESJF.upper())
    for task in sorted(tasks, key=lambda task: list(FORMS).index(task.form)):
        minutes, values = zip(*validations(curve_of(task, source)), strict=True)
        title = FORMS[task.form] if task.seed == 0 else None
        axes.plot(minutes, values, color=COLOUR[task.form], linewidth=1.0, label=title)
    axes.legend(frameon=False, fontsize=8)


def validations(curve: Rows) -> Points:
    """Return the points of a curve at which there was a validation."""
    points, seconds = [], 0.0
    for row in curve:
        seconds += row["seconds"]
        if row["validation"] == row["validation"]:  # else NaN: none was done
            points.append((seconds / 60.0, row["validation"]))
    return points
