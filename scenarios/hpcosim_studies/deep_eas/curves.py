"""Figure 4: how agents learn, beside what ESJF comes to on the same sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpcosim_scenarios.figures.schedule import COLOURS
from hpcosim_studies.canvas import panels, titled
from hpcosim_studies.deep_eas.agents import CURVES
from hpcosim_studies.deep_eas.studies import BUSIEST, PAPERS_CURVE, Trained
from hpcosim_studies.deep_eas.sweep import ESJF, FORMS
from hpcosim_training.learning.curve import Iteration, read_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOUR = dict(zip(FORMS, COLOURS, strict=False))
PAPERS = -42.88
MOST = 2.0  # times ESJF; what is worse is not drawn


def table(tasks: Sequence[Trained], source: Path) -> str:
    """Return how fast each agent learned, Markdown."""
    lines = [
        "# Figure 4: learning",
        "",
        "Best choices on 100 sequences of validation over what ESJF comes to there. Minutes on a "
        "clock on the wall, of one processor, beside another training.",
        "",
        "| trained on | form | seed | iterations | minutes | first below ESJF (min) | "
        "40 % below (min) | least | at the end |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for task in tasks:
        curve = read_curve(source / CURVES / f"{task.name}.csv")
        points = list(_validations(curve))
        least = min(value for _, value in points)
        lines.append(
            f"| {task.scenario} | {FORMS[task.form]} | {task.seed} | {curve[-1].iteration} | "
            f"{points[-1][0]:.1f} | {_first(points, 1.0)} | {_first(points, 0.6)} | {least:.3f} | "
            f"{points[-1][1]:.3f} |"
        )
    return "\n".join(lines) + "\n"


def _first(points: Iterable[tuple[float, float]], below: float) -> str:
    return next((f"{minutes:.1f}" for minutes, value in points if value < below), "never")


def draw(tasks: Sequence[Trained], source: Path, path: Path) -> None:
    """Draw the curves by the time that learning takes, on the paper's rate and on the busiest.

    Raises:
        FigureError: matplotlib is missing, or the file can't be written.
    """
    with panels(path, 1, 2, (10.0, 4.0), sharey=True) as grid:
        for axes, scenario in zip(grid, (PAPERS_CURVE, BUSIEST), strict=True):
            here = [task for task in tasks if task.scenario == scenario]
            _draw(axes, here, source)
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
    for form in dict.fromkeys(task.form for task in tasks):
        for task in (one for one in tasks if one.form == form):
            points = list(_validations(read_curve(source / CURVES / f"{task.name}.csv")))
            title = FORMS[form] if task.seed == 0 else None
            axes.plot(*zip(*points, strict=True), color=COLOUR[form], linewidth=1.0, label=title)
    axes.legend(frameon=False, fontsize=8)


def _validations(curve: Iterable[Iteration]) -> Iterator[tuple[float, float]]:
    """Yield minutes and validation, where there was one."""
    seconds = 0.0
    for done in curve:
        seconds += done.seconds
        if done.validation == done.validation:
            yield seconds / 60.0, done.validation
