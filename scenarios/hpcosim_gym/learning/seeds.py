"""Trainings with several seeds, side by side."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_experiments.executors import (
    IN_THIS_PROCESS,
    ExecutorSettings,
    InputFiles,
    open_executor,
)
from hpcosim_gym.learning.curve import CURVE
from hpcosim_protocol.errors import HpcosimError

LAST_MEASURES = ("mean_j", "mean_return")
"""Measures of trainings without validation, in order of preference: the last row counts."""


class SeedTask(NamedTuple):
    """The training with one seed."""

    seed: int
    folder: Path
    resume: bool = False


class SeedOutcome(NamedTuple):
    """The outcome of the training with one seed.

    Attributes:
        seed: seed of the training.
        network: path of the network or rule; None: the training failed.
        measure: name of the measure of `value`, see `final_measure`; empty: not measured.
        value: final value of the measure; NaN: not measured.
        error: one line: why the training failed; empty: it did not.
    """

    seed: int
    network: Path | None = None
    measure: str = ""
    value: float = math.nan
    error: str = ""


def train_seeds(
    train: Callable[..., Path],
    settings: Any,
    tasks: Sequence[SeedTask],
    executor: ExecutorSettings,
) -> Iterator[SeedOutcome]:
    """Train with several seeds, each in a worker; yield the outcomes in the order of completion.

    Each training runs its rollouts in its worker and writes the same files as alone. A failed
    training does not stop the others.

    Args:
        train: a `functools.partial` of a function such as `train_pairing` that lacks output folder
            and settings; its values can be pickled.
        settings: settings of the training; `seed` and `executor` are replaced.
        tasks: the trainings.
        executor: where the trainings run. The current folder, the folders of the tasks and all
            input files must be on a file system that its nodes share.

    Raises:
        ExecutorError: the executor cannot start.
    """
    once = partial(_train_one, train=train, settings=settings, here=Path.cwd())
    with open_executor(executor) as workers:
        for done in workers.run(once, tasks):
            yield done.result or SeedOutcome(tasks[done.index].seed, error=done.error)


def final_measure(folder: Path) -> tuple[str, float]:
    """Return the name and the final value of the measure that rates a training.

    It is the best validation score, which is that of the final network. A training without
    validation has the value of the last iteration or generation: the cost `mean_j` of a search,
    otherwise `mean_return`.

    Args:
        folder: folder of the training; see `curve.csv` in it.

    Raises:
        OSError: the folder has no learning curve.
    """
    with (folder / CURVE).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    scores = _values(rows, "validation")
    if scores:
        return "validation", min(scores)
    for name in LAST_MEASURES:
        if values := _values(rows, name):
            return name, values[-1]
    return "", math.nan


def _values(rows: Sequence[dict[str, str]], name: str) -> list[float]:
    values = [float(row.get(name, "nan")) for row in rows]
    return [value for value in values if not math.isnan(value)]


def _train_one(
    task: SeedTask, _: InputFiles, *, train: Callable[..., Path], settings: Any, here: Path
) -> SeedOutcome:
    """Train with one seed in the driver's current folder; errors become one line."""
    settings = dataclasses.replace(settings, seed=task.seed, executor=IN_THIS_PROCESS)
    options = {"resume": True} if task.resume else {}
    try:
        with contextlib.chdir(here), warnings.catch_warnings():
            # Seeds that were complete before an interruption are not a surprise.
            warnings.filterwarnings("ignore", ".*the training is complete")
            network = train(task.folder, settings, **options)
            return SeedOutcome(task.seed, network, *final_measure(task.folder))
    except OSError as error:
        where = error.filename or task.folder
        return SeedOutcome(task.seed, error=f"{where}: {error.strerror or error}")
    except HpcosimError as error:  # of a bug, the executor adds where it was raised
        return SeedOutcome(task.seed, error=" ".join(str(error).split()))
