"""The training of the study: six orders of three workloads and none, several seeds of each."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import permutations
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from hpcosim_studies.power.agents import TRAINED_BESIDE
from hpcosim_studies.power.readings import TEST, TRAIN_LATE, UNTRAINED
from hpcosim_studies.power.runs import KEPT, run_test
from hpcosim_training.learners.power.train import ACTOR

NONE = "real"
CURRICULA = (*("-".join(order) for order in permutations(("sampled", "real", "synthetic"))), NONE)
"""Six curricula, and none: the real workload alone, as often as the three of the others."""


class Grid(NamedTuple):
    """How much is trained.

    Attributes:
        seeds: training seeds of each curriculum.
        epochs: how often each workload of a curriculum is learned from; the paper has 10.
        days: of the synthetic workload; the paper has 365.
        learning_rate: of A2C.
    """

    seeds: tuple[int, ...] = (1, 2, 3)
    epochs: int = 1
    days: int = 35
    learning_rate: float = 1e-3


class Trained(NamedTuple):
    """One training, to be done or done.

    Attributes:
        curriculum: a name of `CURRICULA`.
        seed: of it.
        algorithm: `a2c` or `ppo`.
    """

    curriculum: str
    seed: int
    algorithm: str = "a2c"

    @property
    def name(self) -> str:
        """What its folder is called."""
        return f"{self.algorithm}-{self.curriculum}-{self.seed}"


def train_grid(grid: Grid, out: Path, tasks: Sequence[Trained], workers: int) -> None:
    """Train and test all, several at a time; what is there already is not done again.

    Into the folder goes a folder for each training, see `learners.power.train.train`, and
    `curricula.csv` with the metrics of each on the test part.

    Args:
        grid: how much.
        out: the folder.
        tasks: what.
        workers: processes.
    """
    out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        running = [pool.submit(train_one, task, grid, out) for task in tasks]
        for done in as_completed(running):
            done.result()
            write_table(out, tasks)


def all_tasks(grid: Grid) -> list[Trained]:
    """Return the trainings of the whole grid, a seed of every curriculum before the next."""
    kinds = (UNTRAINED, *CURRICULA)
    return [Trained(curriculum, seed) for seed in grid.seeds for curriculum in kinds]


def train_one(task: Trained, grid: Grid, out: Path) -> None:
    """Train one, if that was not done before; of `untrained` only the first weights are kept."""
    from hpcosim_training.learners.power.settings import ALGORITHMS
    from hpcosim_training.learners.power.train import train_power

    if (out / task.name / ACTOR).exists():
        return
    settings = ALGORITHMS[task.algorithm]
    if task.algorithm == "a2c":
        settings = replace(settings, learning_rate=grid.learning_rate)
    times = {NONE: 3, UNTRAINED: 0}.get(task.curriculum, 1)
    training = replace(
        settings,
        curriculum=[] if task.curriculum == UNTRAINED else task.curriculum.split("-"),
        iterations=times * grid.epochs,
        seed=task.seed,
        synthetic_days=grid.days,
    )
    beside = {"scheduler.power_awareness": TRAINED_BESIDE[task.algorithm]}
    train_power(TRAIN_LATE, out / task.name, training, overrides=beside)


def write_table(out: Path, tasks: Sequence[Trained]) -> None:
    """Write the metrics of all trained so far, on the test part."""
    with (out / "curricula.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(("algorithm", "curriculum", "seed", *KEPT))
        for task, row in _tested(out, tasks):
            lines.writerow((task.algorithm, task.curriculum, task.seed, *row))


def _tested(out: Path, tasks: Sequence[Trained]) -> Iterator[tuple[Trained, list[float]]]:
    for task in tasks:
        model = out / task.name / ACTOR
        if model.exists():
            metrics = run_test(TEST, {"name": "rl", "model": str(model.resolve())})
            yield task, [metrics[key] for key in KEPT]
