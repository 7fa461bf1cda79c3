"""The agents of the study: their training and test."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from hpcosim_experiments.statistics.rows import Row
from hpcosim_gym.learning.curve import CURVE, read_curve
from hpcosim_gym.learning.weights import arrays_of
from hpcosim_papers.deep_eas.agent.network import DeepEasMetadata, load_deep_eas, save_deep_eas
from hpcosim_papers.deep_eas.learners.networks import initialise, network_of
from hpcosim_papers.deep_eas.learners.settings import FORMS
from hpcosim_papers.deep_eas.learners.train import NETWORK, train_deep_eas
from hpcosim_papers.deep_eas.study.cases import DeepEasTask
from hpcosim_papers.studies.agents import keep_best, train_all
from hpcosim_papers.studies.papers import scenario_path
from hpcosim_papers.studies.runs import simulate

MEASURE = "mean_normalised_edp"
CURVES = "curves"
UNTRAINED = "untrained.safetensors"
STUDIED: Mapping[str, Mapping[str, int]] = {
    "paper": {"sequences": 10, "iterations": 40},
}
"""Changes of the training settings by form; the full training would take a day."""

COLUMNS = (
    *("scenario", "form", "seed", "training_s", "iterations", "best_at"),
    *("untrained", "untrained_drawn", "best", "drawn"),
)
"""Columns of `agents.csv`, which has a row for each agent.

`training_s` is wall-clock time with another training in parallel; `iterations` and `best_at` are
the completed iterations and the one with the best validation score. The others are the mean
normalised energy-delay product on the 150 sequences of the scenario: of the network before and
after training, each with greedy and with sampled (`drawn`) actions.
"""


def train_study(tasks: Sequence[DeepEasTask], out: Path, workers: int | None = None) -> None:
    """Train and test agents; write `agents.csv`, learning curves and the best networks."""
    train_all(tasks, out, train_one, COLUMNS, digits=8, workers=workers, title="deep-eas")
    (out / CURVES).mkdir(exist_ok=True)
    for task in tasks:
        shutil.copyfile(out / task.name / CURVE, out / CURVES / f"{task.name}.csv")
    for model in dict.fromkeys(task.model for task in tasks):
        folders = [out / task.name for task in tasks if task.model == model]
        keep_best(folders, NETWORK, out / model, validation_of)


def train_one(task: DeepEasTask, folder: Path) -> list[Row]:
    """Train an agent into a folder, and return its row."""
    path = scenario_path("deep_eas", task.scenario)
    changes: dict[str, Any] = {"seed": task.seed, **STUDIED.get(task.form, {})}
    train_deep_eas(path, folder, dataclasses.replace(FORMS[task.form], **changes))
    _save_untrained(folder, task.seed)
    curve = read_curve(folder)
    values = [
        normalised_edp(path, f"deep-eas{sampled}:{folder / model}")
        for model in (UNTRAINED, NETWORK)
        for sampled in ("", "-sampled")
    ]
    training_s = float(sum(line.seconds for line in curve))
    best_at = int(load_deep_eas(folder / NETWORK)[1].training["best_at"])
    cells = (*task, training_s, curve[-1].iteration, best_at, *values)
    return [dict(zip(COLUMNS, cells, strict=True))]


def normalised_edp(path: Path, scheduler: str) -> float:
    """Return the mean normalised energy-delay product of a scheduler on a scenario."""
    return simulate(path, scheduler).metrics[MEASURE]


def validation_of(folder: Path) -> float:
    """Return the best validation score of a training; lower is better."""
    return float(load_deep_eas(folder / NETWORK)[1].training["validation"])


def _save_untrained(folder: Path, seed: int) -> None:
    """Write the initial network of a training."""
    about = load_deep_eas(folder / NETWORK)[1]
    network = network_of(about.settings)
    initialise(network, torch.Generator().manual_seed(seed))
    save_deep_eas(
        folder / UNTRAINED,
        arrays_of(network.state_dict()),
        DeepEasMetadata(settings=about.settings),
    )
