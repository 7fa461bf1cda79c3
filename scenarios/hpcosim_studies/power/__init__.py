"""Paper 003's study: timeouts, curricula, scheduling metrics, sensitivity, Pareto.

"Improving the Efficiency of a Deep Reinforcement Learning-Based Power Management System for HPC
Clusters Using Curriculum Learning": when to switch the nodes of a cluster off and on, by timeouts
and by a trained network. `scenarios/papers/power/README.md` says what came of it.
"""

from __future__ import annotations

from pathlib import Path

from hpcosim_scenarios.errors import ScenariosError
from hpcosim_scenarios.figures.schedule import drawing
from hpcosim_studies.power.agents import find_agents
from hpcosim_studies.power.curriculum_report import compare_curricula
from hpcosim_studies.power.pareto import compare_all
from hpcosim_studies.power.radar import compare_scheduling
from hpcosim_studies.power.readings import TRAININGS, WORKERS
from hpcosim_studies.power.sensitivity import compare_settings
from hpcosim_studies.power.timeouts import compare_timeouts

COMPARED = {
    "power-timeouts": compare_timeouts,
    "power-radar": compare_scheduling,
    "power-sensitivity": compare_settings,
    "power-pareto": compare_all,
}
"""The parts that run what there is; of `power-curricula` the training comes before."""


def reproduce(study: str, out: Path, *, train: bool = False) -> None:
    """Run a part of the study; write `results.csv`, `summary.md` and figures into a folder.

    Args:
        study: `power-curricula`, or a key of `COMPARED`.
        out: the folder; files of the same names are replaced.
        train: train the networks of `power-curricula` first, into the folder, which takes many
            hours; else the trainings that lie beside the scenarios are drawn.

    Raises:
        ScenarioError, WorkloadError: a scenario, or the log it names, can't be read.
        RunError: a simulation failed.
        FigureError: matplotlib is missing.
        ScenariosError: there is no table of trainings, or the folder can't be written to.
    """
    drawing()  # what is missing shows now, not after all simulations
    try:
        out.mkdir(parents=True, exist_ok=True)
        if study == "power-curricula":
            compare_curricula(out, _train(out) if train else TRAININGS)
        else:
            COMPARED[study](out, *find_agents())
    except OSError as error:
        raise ScenariosError(f"can't write {out}: {error.strerror or error}") from None


def _train(out: Path) -> Path:
    """Train the whole grid into a folder, and return the table of it."""
    from hpcosim_studies.power.curricula import Grid, all_tasks, train_grid

    grid = Grid()
    train_grid(grid, out, all_tasks(grid), WORKERS)
    return out / TRAININGS.name
