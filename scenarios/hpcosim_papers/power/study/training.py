"""The trainings of the study: six orders of three workloads, and no curriculum, each with seeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from hpcosim_experiments.statistics.rows import Row
from hpcosim_papers.power.learners.train import A2C, ACTOR, train_power
from hpcosim_papers.power.study import paper
from hpcosim_papers.power.study.curricula import TABLE, TRAINED_COLUMNS
from hpcosim_papers.studies.agents import train_all
from hpcosim_papers.studies.study import scenario_path, simulate

ALGORITHM: Literal["a2c"] = "a2c"
SEEDS = (1, 2, 3)
PASSES = 1
"""Iterations on each workload of a curriculum; the paper has 10."""

SYNTHETIC_DAYS = 35
"""The paper has 365."""

LEARNING_RATE = 1e-3
"""The paper has 1e-4."""


class CurriculumTask(NamedTuple):
    """A training."""

    curriculum: str
    seed: int

    @property
    def name(self) -> str:
        """Name of its folder."""
        return f"{ALGORITHM}-{self.curriculum}-{self.seed}"


def train_grid(out: Path, workers: int | None = None) -> Path:
    """Train and test all agents, and return the table; completed trainings are not repeated."""
    names = (paper.UNTRAINED, *paper.CURRICULA)
    tasks = [CurriculumTask(curriculum, seed) for seed in SEEDS for curriculum in names]
    train_all(
        tasks,
        out,
        train_one,
        TRAINED_COLUMNS,
        table=TABLE,
        digits=None,
        workers=workers,
        title="power-curricula",
    )
    return out / TABLE


def train_one(task: CurriculumTask, folder: Path) -> list[Row]:
    """Train an agent and return its row; `untrained` is the initial network."""
    times = {paper.NO_CL: 3, paper.UNTRAINED: 0}.get(task.curriculum, 1)
    training = replace(
        A2C,
        curriculum=[] if task.curriculum == paper.UNTRAINED else task.curriculum.split("-"),
        iterations=times * PASSES,
        seed=task.seed,
        synthetic_days=SYNTHETIC_DAYS,
        learning_rate=LEARNING_RATE,
    )
    aware = {"scheduler.power_awareness": paper.AGENTS_AWARENESS}
    train_power(scenario_path("power", "train_late"), folder, training, overrides=aware)
    power = {"name": "rl", "model": str((folder / ACTOR).resolve())}
    metrics = simulate(paper.scenario_file(), overrides={**aware, "scheduler.power": power}).metrics
    about = {"algorithm": ALGORITHM, "curriculum": task.curriculum, "seed": task.seed}
    return [{**about, **{name: metrics[name] for name in paper.METRICS}}]
