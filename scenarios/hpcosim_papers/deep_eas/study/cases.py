"""The scenarios of the study, their published values, and the training and test of its agents."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from hpcosim_experiments.statistics.rows import Row
from hpcosim_gym.learning.curve import CURVE, read_curve
from hpcosim_gym.learning.networks import arrays_of
from hpcosim_papers.deep_eas.agent.network import DeepEasMetadata, load_deep_eas, save_deep_eas
from hpcosim_papers.deep_eas.learners.networks import initialise, network_of
from hpcosim_papers.deep_eas.learners.settings import FORMS
from hpcosim_papers.deep_eas.learners.train import NETWORK, train_deep_eas
from hpcosim_papers.studies.agents import keep_best, train_all
from hpcosim_papers.studies.study import scenario_path, simulate

SEEDS = (0, 1, 2)


MEASURE = "mean_normalised_edp"
CURVES_FOLDER = "curves"
UNTRAINED = "untrained.safetensors"
STUDIED: Mapping[str, Mapping[str, int]] = {
    "paper": {"sequences": 10, "iterations": 40, "validate_every": 2},
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


class Case(NamedTuple):
    """A scenario of a sweep.

    Attributes:
        published: change of the paper's agent from ESJF, %; None: not published.
    """

    scenario: str
    label: str
    published: float | None = None

    @property
    def path(self) -> Path:
        """The scenario file."""
        return scenario_path("deep_eas", self.scenario)


class Sweep(NamedTuple):
    """Scenarios that differ in one parameter."""

    title: str
    differs: str
    cases: tuple[Case, ...]


RATES = (0.1, 0.3, 0.5, 0.7, 0.9)
PERFECT = (-5.37, -13.84, -29.45, -37.64, -45.47)

SWEEPS: Mapping[str, Sweep] = {
    "deep-eas-fig3": Sweep(
        "Figure 3: arrival rates, uncertain run times (c 4), half of the jobs short",
        "arrival rate",
        tuple(Case(f"lambda_{rate}", f"{rate}", -42.88 if rate == 0.9 else None) for rate in RATES),
    ),
    "deep-eas-perfect": Sweep(
        "Section III-G: exact run-time estimates",
        "arrival rate",
        tuple(
            Case(f"perfect_{rate}", f"{rate}", published)
            for rate, published in zip(RATES, PERFECT, strict=True)
        ),
    ),
    "deep-eas-beta": Sweep(
        "Section III-G: shares of short jobs, arrival rate 0.7",
        "share of short jobs",
        (
            Case("beta_0.2", "0.2", -11.94),
            Case("lambda_0.7", "0.5", -35.10),
            Case("beta_0.8", "0.8", -45.29),
        ),
    ),
    "deep-eas-machines": Sweep(
        "Not in the paper: more machines, arrival rate 0.9",
        "machines",
        (
            Case("lambda_0.9", "2", -42.88),
            Case("machines_3", "3"),
            Case("machines_4", "4"),
        ),
    ),
}
"""Studies that compare scenarios, by name."""

CURVES = "deep-eas-fig4"
HELD = "deep-eas-fig5"
OPTIMUM = "deep-eas-optimum"
LENGTHS = "deep-eas-lengths"
EVERY_LENGTH = "every_length.safetensors"
"""The file of the agent of the form `queue`, trained on many lengths and loads: the best of its
seeds on the sequences that choose."""

LENGTH_SEEDS = (0, 1, 2, 3, 4)
"""Seeds of the trainings of the form `queue`."""

BUSIEST = "lambda_0.9"
PAPERS_CURVE = "lambda_0.7"


class DeepEasTask(NamedTuple):
    """A training.

    Attributes:
        form: a key of `FORMS` of the training package: `pairs`, `picture` or `paper`.
    """

    scenario: str
    form: str
    seed: int

    @property
    def name(self) -> str:
        """Name of its folder and of its learning curve."""
        return f"{self.scenario}-{self.form}-{self.seed}"

    @property
    def model(self) -> str:
        """Name of the file of the best agent over the seeds."""
        return model_name(self.scenario, self.form)


def model_name(scenario: str, form: str) -> str:
    """Return the name of the file of the best agent of a form on a scenario."""
    return f"{scenario}.safetensors" if form == "pairs" else f"{scenario}-{form}.safetensors"


def every_length_of(seed: int) -> str:
    """Return the name of the file of the agent of the form `queue` with a seed."""
    return f"every_length-{seed}.safetensors"


def trained_on(scenario: str) -> list[DeepEasTask]:
    """Return the trainings on a scenario: all forms and seeds on the busiest, otherwise ours."""
    if scenario == BUSIEST:
        forms = ("pairs", "picture", "paper")
        return [DeepEasTask(scenario, form, seed) for form in forms for seed in SEEDS]
    own = [DeepEasTask(scenario, "pairs", 0)]
    return [*own, DeepEasTask(scenario, "paper", 0)] if scenario == PAPERS_CURVE else own


def trainings(study: str) -> list[DeepEasTask]:
    """Return the trainings of a study."""
    if study in SWEEPS:
        scenarios = [case.scenario for case in SWEEPS[study].cases]
    else:
        scenarios = [PAPERS_CURVE, BUSIEST] if study == CURVES else [BUSIEST]
    return [one for scenario in scenarios for one in trained_on(scenario)]


def train_study(tasks: Sequence[DeepEasTask], out: Path, workers: int | None = None) -> None:
    """Train and test agents; write `agents.csv`, learning curves and the best networks."""
    train_all(tasks, out, train_one, COLUMNS, digits=8, workers=workers, title="deep-eas")
    (out / CURVES_FOLDER).mkdir(exist_ok=True)
    for task in tasks:
        shutil.copyfile(out / task.name / CURVE, out / CURVES_FOLDER / f"{task.name}.csv")
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
