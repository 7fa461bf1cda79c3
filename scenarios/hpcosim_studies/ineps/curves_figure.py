"""How agents learn: what they come to, and both networks' losses, iteration by iteration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hpcosim_scenarios.figures.schedule import COLOURS, drawing
from hpcosim_studies.ineps.agents_tables import MEASURES
from hpcosim_studies.ineps.experiments import OURS, PAPERS, Trained, trainings
from hpcosim_training.learning.curve import Iteration, read_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROWS = {
    "mean_return": "return of an episode",
    "objective": "objective / the teacher's",
    "policy_loss": "actor's loss",
    "value_loss": "critic's loss",
}
"""The quantities of a curve that are drawn, a row each, by their names for people."""


def draw_curves(study: str, trained: Path, path: Path) -> None:
    """Draw mean and range over seeds, a column an agent and objective.

    Args:
        study: a key of `EXPERIMENTS`.
        trained: the folder of the trainings.
        path: of the picture.
    """
    _, pyplot = drawing()
    kinds = [(variant, aim) for variant in (PAPERS, OURS) for aim in MEASURES]
    figure, panels = pyplot.subplots(
        len(ROWS), len(kinds), figsize=(12, 7), sharex="col", layout="constrained"
    )
    for column, (variant, objective) in zip(panels.T, kinds, strict=True):
        tasks = [
            one
            for one in trainings(study)
            if (one.variant, one.objective) == (variant, objective) and one.trained
        ]
        _draw_column(column, tasks, trained)
        column[0].set_title(
            f"{variant}, for {MEASURES[objective].title}: {len(tasks)} seeds", fontsize=9
        )
        column[-1].set_xlabel("iterations", fontsize=8)
    for axes, label in zip(panels[:, 0], ROWS.values(), strict=True):
        axes.set_ylabel(label, fontsize=8)
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def _draw_column(column: Sequence[Axes], tasks: Sequence[Trained], trained: Path) -> None:
    curves = [
        [done for done in read_curve(trained / task.folder) if done.iteration > 0] for task in tasks
    ]
    for axes, name in zip(column, ROWS, strict=True):
        _draw_quantity(axes, curves, name)


def _draw_quantity(axes: Axes, curves: Sequence[Sequence[Iteration]], name: str) -> None:
    values = np.array([[_value(done, name) for done in curve] for curve in curves])
    at = np.arange(1, values.shape[1] + 1)
    axes.fill_between(at, values.min(axis=0), values.max(axis=0), color=COLOURS[4], alpha=0.4)
    axes.plot(at, values.mean(axis=0), color=COLOURS[0], linewidth=1.0)
    axes.tick_params(labelsize=7)
    if name == "value_loss":
        axes.set_yscale("log")


def _value(done: Iteration, name: str) -> float:
    return done.measures["objective"] if name == "objective" else float(getattr(done, name))
