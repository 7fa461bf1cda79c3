"""The pairing agent on Experiments 1 to 4: training, evaluation and comparison."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import numpy as np

from hpcosim_experiments.statistics.rows import Row, read_rows, write_rows
from hpcosim_gym.environments.arguments import totals
from hpcosim_gym.learning.curve import read_curve
from hpcosim_papers.ineps.agent.model import load_pairing
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.environments.pairing_task import PairingTask
from hpcosim_papers.ineps.learners.networks import load_actor
from hpcosim_papers.ineps.learners.play import play_greedy, play_sampled
from hpcosim_papers.ineps.learners.train import ACTOR, train_pairing
from hpcosim_papers.ineps.study.experiments import (
    EXPERIMENTS,
    OBJECTIVES,
    OURS,
    PAPERS,
    PairingRun,
    model_name,
    trainings,
    trainings_of,
)
from hpcosim_papers.ineps.study.heuristics import indexed, study_of
from hpcosim_papers.ineps.study.pairing_figures import draw_bars, draw_curves, draw_schedules
from hpcosim_papers.ineps.study.pairing_tables import Results, summary
from hpcosim_papers.studies.agents import TABLE, keep_best, train_all
from hpcosim_papers.studies.papers import papers_folder, scenario_path
from hpcosim_papers.studies.study import Request, rows_of
from hpcosim_scenarios.planning.optimum import find_optimum
from hpcosim_scenarios.planning.optimum.bound import Objective
from hpcosim_scenarios.planning.optimum.moves import Placements
from hpcosim_scenarios.running.library import Library, rules_of

# Training and evaluation of the pairing agent, and the optima of small experiments.

OPTIMA = "optimum.csv"
OPTIMA_COLUMNS = ("experiment", "placements", "objective", "value", "explored")
SMALL = ("exp1", "exp2")
"""Experiments that are small enough to search their optimum."""

RUNS = 100
"""Number of runs of each agent with sampled actions."""

SIDE_BY_SIDE = 20
STREAM = 1_000_004
"""Random stream of the sampled runs; other draws with the same seed use other streams."""

DRAWN = ("mean", "deviation", "least", "most")
COLUMNS = (
    *("variant", "objective", "seed", "experiment", "training_s", "energy_j", "edp_js"),
    *(f"drawn_{metric}_{of}" for metric in ("energy_j", "edp_js") for of in DRAWN),
)
"""Columns of `agents.csv`: energy and EDP of an agent's greedy run and of `RUNS` sampled runs."""


def train_study(study: str, out: Path, workers: int | None = None) -> None:
    """Search the optima of a study, train its agents, and copy the best agent of each kind.

    Args:
        study: a key of `EXPERIMENTS`.
        out: the output folder.
        workers: number of processes; None: one per core.
    """
    find_optima(EXPERIMENTS[study].trained_on, out / OPTIMA)
    train_all(trainings(study), out, train_one, COLUMNS, workers=workers, title=study)
    for variant in (PAPERS, OURS):
        for objective in OBJECTIVES:
            folders = [out / one.name for one in trainings_of(study, variant, objective)]
            keep_best(folders, ACTOR, out / model_name(variant, objective), validation_of)


def train_one(task: PairingRun, folder: Path) -> list[Row]:
    """Train an agent into a folder, and return a row per test scenario."""
    experiment = EXPERIMENTS[task.study]
    train_pairing(scenario_path("ineps", experiment.trained_on), folder, task.training)
    training_s = sum(line.seconds for line in read_curve(folder))
    about = {"variant": task.label, "objective": task.objective, "seed": task.seed}
    return [
        {
            **about,
            "experiment": name,
            "training_s": training_s,
            **evaluate(folder / ACTOR, name, task.seed),
        }
        for name in experiment.tested_on
    ]


def evaluate(model: Path, experiment: str, seed: int) -> dict[str, float]:
    """Return the energy and EDP of an agent: of its greedy run, and of `RUNS` sampled runs.

    Args:
        model: the agent's file.
        experiment: name of the scenario.
        seed: seed of the sampled actions.
    """
    actor, about = load_actor(model)
    library = Library([scenario_path("ineps", experiment)])
    scenario, jobs = library.first, library.first_jobs
    task = PairingTask(scenario.platform, about.pairing, "spent", rules_of(scenario), scenario.seed)

    def sampled() -> Iterator[dict[str, float]]:
        for first in range(0, RUNS, SIDE_BY_SIDE):
            runs = [JobNodePairingEnv(task=task, jobs=jobs) for _ in range(SIDE_BY_SIDE)]
            streams = [[seed, STREAM, first + run] for run in range(SIDE_BY_SIDE)]
            play_sampled(actor, runs, [np.random.default_rng(stream) for stream in streams])
            yield from (totals(run.simulation) for run in runs)

    greedy = JobNodePairingEnv(task=task, jobs=jobs)
    play_greedy(actor, [greedy])
    found = {name: totals(greedy.simulation)[name] for name in ("energy_j", "edp_js")}
    drawn = list(sampled())
    for metric in tuple(found):
        values = np.array([run[metric] for run in drawn])
        spread = (values.mean(), values.std(ddof=1), values.min(), values.max())
        for of, value in zip(DRAWN, spread, strict=True):
            found[f"drawn_{metric}_{of}"] = float(value)
    return found


def validation_of(folder: Path) -> float:
    """Return the objective of a trained agent relative to its teacher's; lower is better.

    It is the validation score, or, without validation, the mean over the sampled runs of the last
    ten iterations. Test results are not used.
    """
    _, about = load_pairing(folder / ACTOR)
    if "validation" in about.training:
        return float(about.training["validation"])
    last = [line.measures["objective"] for line in read_curve(folder)[-10:]]
    return sum(last) / len(last)


def find_optima(experiment: str, path: Path) -> None:
    """Write the optima of a small experiment unless the file exists."""
    if path.exists() or experiment not in SMALL:
        return
    library = Library([scenario_path("ineps", experiment)])
    found = []
    for placements in get_args(Placements):
        for objective in get_args(Objective):
            optimum = find_optimum(library.first, library.first_jobs, objective, placements)
            values = (experiment, placements, objective, optimum.value, optimum.explored)
            found.append(dict(zip(OPTIMA_COLUMNS, values, strict=True)))
    write_rows(path, OPTIMA_COLUMNS, found, digits=None)


def reproduce(request: Request) -> None:
    """Write `summary.md` and figures of an experiment; of a training also learning curves."""
    name, out = request.name, request.out
    source = out if request.train else papers_folder() / "ineps" / name
    if request.train:
        train_study(name, out, request.workers)
        draw_curves(out / "curves.png", name, out)
    experiments = EXPERIMENTS[name].tested_on
    runs = rows_of(study_of({}, {}, experiments), request)
    optima = source / OPTIMA
    results = Results(
        read_rows(source / TABLE),
        indexed(runs),
        read_rows(optima) if optima.exists() else [],
    )
    (out / "summary.md").write_text(summary(results, experiments), encoding="utf-8")
    draw_bars(out / "bars.png", results, experiments)
    for experiment in experiments:
        path = out / f"schedules-{experiment}.png"
        draw_schedules(path, experiment, results, source)
