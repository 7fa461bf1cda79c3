"""Agents of the study: trained, several at a time, and tried out in the simulator."""

from __future__ import annotations

import csv
import dataclasses
import shutil
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch

from hpcosim_client import make_policy
from hpcosim_client.agents.deep_eas.model import About, load_deep_eas, save_deep_eas
from hpcosim_client.agents.deep_eas.network import draw, network_of
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_scenarios.running.progress import shown
from hpcosim_studies.deep_eas.studies import FOLDER, Trained
from hpcosim_training.learners.deep_eas.settings import FORMS
from hpcosim_training.learners.deep_eas.train import NETWORK, train_deep_eas
from hpcosim_training.learning.curve import CURVE, read_curve

MEASURE = "mean_normalised_edp"
AGENTS = "agents.csv"
CURVES = "curves"
UNTRAINED = "untrained.safetensors"
WORKERS = 2
STUDIED: Mapping[str, Mapping[str, int]] = {
    "paper": {"sequences": 10, "iterations": 40},
}
"""By form, what of its training is not as it is by itself: all sequences would take a day."""


class Outcome(NamedTuple):
    """What an agent comes to on the 150 sequences of its scenario, a line of `agents.csv`.

    Attributes:
        scenario, form, seed: of its training.
        training_s: how long it learned, on a clock on the wall, beside another training.
        iterations: how often, and after how many of them it was the best in validation.
        best_at: likewise.
        untrained, untrained_drawn: mean normalised energy-delay product of its network as it was
            drawn, with best choices and with choices drawn.
        best, drawn: the same of the trained one.
    """

    scenario: str
    form: str
    seed: int
    training_s: float
    iterations: int
    best_at: int
    untrained: float
    untrained_drawn: float
    best: float
    drawn: float


def edp(path: Path, scheduler: str) -> float:
    """Return what a scheduler comes to on a scenario."""
    library = Library([path])
    opened = open_scenario(library.first, library.first_jobs, scheduler)
    return float(run_in_process(opened, make_policy(scheduler))[MEASURE])


def train_all(tasks: Sequence[Trained], out: Path) -> None:
    """Train and try out agents, and write `agents.csv`; what is in the folder is not done again."""
    pool = ProcessPoolExecutor(WORKERS, get_context("spawn"))
    try:
        running = [pool.submit(train_one, task, out) for task in tasks]
        with shown("Deep-EAS") as report:
            for number, done in enumerate(as_completed(running), 1):
                done.result()
                report(0.0, number, len(tasks))
    finally:
        pool.shutdown(cancel_futures=True)
    write_outcomes(out / AGENTS, [read_outcomes(out / task.name / AGENTS)[0] for task in tasks])
    keep(tasks, out)


def train_one(task: Trained, out: Path) -> None:
    """Train an agent and try it out, if that was not done before."""
    folder, path = out / task.name, FOLDER / f"{task.scenario}.yaml"
    if (folder / AGENTS).exists():
        return
    changes: dict[str, Any] = {"seed": task.seed, **STUDIED.get(task.form, {})}
    training = dataclasses.replace(FORMS[task.form], **changes)
    train_deep_eas(path, folder, training)
    _save_untrained(folder, task.seed)
    curve = read_curve(folder)
    outcome = Outcome(
        *task,
        sum(done.seconds for done in curve),
        curve[-1].iteration,
        int(load_deep_eas(folder / NETWORK)[1].training["best_at"]),
        *(
            edp(path, f"deep-eas{drawn}:{folder / model}")
            for model in (UNTRAINED, NETWORK)
            for drawn in ("", "-sampled")
        ),
    )
    write_outcomes(folder / AGENTS, [outcome])


def _save_untrained(folder: Path, seed: int) -> None:
    """Write the network that a training began with."""
    about = load_deep_eas(folder / NETWORK)[1]
    network = network_of(about.settings)
    draw(network, torch.Generator().manual_seed(seed))
    save_deep_eas(folder / UNTRAINED, network, About(settings=about.settings))


def keep(tasks: Sequence[Trained], out: Path) -> None:
    """Copy learning curves, and the networks that did best in validation, to their places.

    Nothing is chosen by a test.
    """
    (out / CURVES).mkdir(exist_ok=True)
    for task in tasks:
        shutil.copyfile(out / task.name / CURVE, out / CURVES / f"{task.name}.csv")
    for scenario, form in dict.fromkeys(task[:2] for task in tasks):
        folders = [out / task.name for task in tasks if task[:2] == (scenario, form)]
        shutil.copyfile(min(folders, key=_validation) / NETWORK, out / model_name(scenario, form))


def model_name(scenario: str, form: str) -> str:
    """Return the name of the file of the best agent of a form on a scenario."""
    return f"{scenario}.safetensors" if form == "pairs" else f"{scenario}-{form}.safetensors"


def _validation(folder: Path) -> float:
    return float(load_deep_eas(folder / NETWORK)[1].training["validation"])


def write_outcomes(path: Path, outcomes: Iterable[Outcome]) -> None:
    """Write `agents.csv`."""
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(Outcome._fields)
        lines.writerows(
            [f"{value:.8g}" if isinstance(value, float) else value for value in one]
            for one in outcomes
        )


def read_outcomes(path: Path) -> list[Outcome]:
    """Return what `write_outcomes` wrote.

    Raises:
        OSError: it can't be read.
    """
    with path.open(encoding="utf-8", newline="") as file:
        return [_outcome(line) for line in list(csv.reader(file))[1:]]


def _outcome(line: Sequence[str]) -> Outcome:
    scenario, form, seed, training_s, iterations, best_at, *values = line
    return Outcome(
        scenario,
        form,
        int(seed),
        float(training_s),
        int(iterations),
        int(best_at),
        *map(float, values),
    )
