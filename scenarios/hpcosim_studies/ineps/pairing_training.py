"""Training and trying out the pairing agent; the true optima of small experiments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import numpy as np

from hpcosim_client.agents.pairing.model import load_pairing
from hpcosim_scenarios.planning.optimum import least
from hpcosim_scenarios.planning.optimum.bound import Objective
from hpcosim_scenarios.planning.optimum.moves import Placements
from hpcosim_scenarios.running.library import Library, rules_of
from hpcosim_studies.agents import keep_best, train_all
from hpcosim_studies.ineps.experiments import (
    EXPERIMENTS,
    OBJECTIVES,
    OURS,
    PAPERS,
    Trained,
    model_name,
    of_kind,
    trainings,
)
from hpcosim_studies.papers import scenario_path
from hpcosim_studies.rows import Row, read_rows, write_rows
from hpcosim_training.pairing.environment import PairingEnvironment, Task
from hpcosim_training.pairing.rollout import exploit, explore
from hpcosim_training.pairing.train import ACTOR, train_pairing
from hpcosim_training.subject import totals

OPTIMA = "optimum.csv"
OPTIMA_COLUMNS = ("experiment", "placements", "objective", "value", "explored")
SMALL = ("exp1", "exp2")
"""The experiments small enough for the search of the optimum."""

CURVE = "curve.csv"
RUNS = 100
"""Runs of each agent with sampled choices."""

SIDE_BY_SIDE = 20
STREAM = 1_000_004
"""Sets the chance of these runs apart from other draws of the same seed."""

DRAWN = ("mean", "deviation", "least", "most")
COLUMNS = (
    *("variant", "objective", "seed", "experiment", "training_s", "energy_j", "edp_js"),
    *(f"drawn_{metric}_{of}" for metric in ("energy_j", "edp_js") for of in DRAWN),
)
"""Of `agents.csv`: energy and EDP of an agent's greedy run, and over `RUNS` sampled ones."""


def train_study(study: str, out: Path, workers: int | None = None) -> None:
    """Find the optima of a study, train its agents, and keep the best of either kind.

    Args:
        study: a key of `EXPERIMENTS`.
        out: the folder.
        workers: processes to train in.
    """
    find_optima(EXPERIMENTS[study].trained_on, out / OPTIMA)
    train_all(trainings(study), out, train_one, COLUMNS, workers=workers, title=study)
    for variant in (PAPERS, OURS):
        for objective in OBJECTIVES:
            folders = [out / one.name for one in of_kind(study, variant, objective)]
            keep_best(folders, ACTOR, out / model_name(variant, objective), validation_of)


def train_one(task: Trained, folder: Path) -> list[Row]:
    """Train an agent into a folder, and return a row for each experiment it is tried on."""
    experiment = EXPERIMENTS[task.study]
    train_pairing(scenario_path("ineps", experiment.trained_on), folder, task.training)
    training_s = sum(float(line["seconds"]) for line in read_rows(folder / CURVE))
    about = {"variant": task.label, "objective": task.objective, "seed": task.seed}
    return [
        {
            **about,
            "experiment": name,
            "training_s": training_s,
            **try_out(folder / ACTOR, name, task.seed),
        }
        for name in experiment.tested_on
    ]


def try_out(model: Path, experiment: str, seed: int) -> dict[str, float]:
    """Return the energy and EDP of an agent: of its greedy run, and over `RUNS` sampled ones.

    Args:
        model: the agent's file.
        experiment: the scenario's name.
        seed: of the sampled choices.
    """
    actor, about = load_pairing(model)
    library = Library([scenario_path("ineps", experiment)])
    scenario, jobs = library.first, library.first_jobs
    task = Task(scenario.platform, about.pairing, "spent", rules_of(scenario), scenario.seed)

    def sampled() -> Iterator[dict[str, float]]:
        for first in range(0, RUNS, SIDE_BY_SIDE):
            runs = [PairingEnvironment(task, jobs) for _ in range(SIDE_BY_SIDE)]
            streams = [[seed, STREAM, first + run] for run in range(SIDE_BY_SIDE)]
            explore(actor, runs, [np.random.default_rng(stream) for stream in streams])
            yield from (totals(run.simulation) for run in runs)

    greedy = PairingEnvironment(task, jobs)
    exploit(actor, [greedy])
    found = {name: totals(greedy.simulation)[name] for name in ("energy_j", "edp_js")}
    drawn = list(sampled())
    for metric in tuple(found):
        values = np.array([run[metric] for run in drawn])
        spread = (values.mean(), values.std(ddof=1), values.min(), values.max())
        for of, value in zip(DRAWN, spread, strict=True):
            found[f"drawn_{metric}_{of}"] = float(value)
    return found


def validation_of(folder: Path) -> float:
    """Return the objective of a training, relative to its teacher's: the less, the better.

    It is that of validation, or, where there is none, the mean of the sampled choices of the last
    ten iterations. No test is looked at.
    """
    _, about = load_pairing(folder / ACTOR)
    if "validation" in about.training:
        return float(about.training["validation"])
    last = [float(line["mean"]) for line in read_rows(folder / CURVE)[-10:]]
    return sum(last) / len(last)


def find_optima(experiment: str, path: Path) -> None:
    """Write the optima of a small experiment, unless the file is there."""
    if path.exists() or experiment not in SMALL:
        return
    library = Library([scenario_path("ineps", experiment)])
    found = []
    for placements in get_args(Placements):
        for objective in get_args(Objective):
            optimum = least(library.first, library.first_jobs, objective, placements)
            values = (experiment, placements, objective, optimum.value, optimum.explored)
            found.append(dict(zip(OPTIMA_COLUMNS, values, strict=True)))
    write_rows(path, OPTIMA_COLUMNS, found, digits=None)
