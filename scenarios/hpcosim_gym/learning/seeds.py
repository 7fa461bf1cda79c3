"""Carrying out a recipe: a training for each seed, side by side, and the best network of them."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_experiments.executors import (
    IN_THIS_PROCESS,
    ExecutorSettings,
    InputFiles,
    Local,
    Slurm,
    open_executor,
)
from hpcosim_gym.errors import TrainingError
from hpcosim_gym.learning.curve import CURVE
from hpcosim_gym.learning.recipe import Recipe
from hpcosim_gym.learning.trainers import Progress, Report, TrainingStopped
from hpcosim_protocol.errors import HpcosimError

MEASURES = {"validation": min, "mean": min, "mean_return": max}
"""Measures that rate a training, in order of preference, each with the choice of the best.

The best validation counts, since the final network is the best validated; otherwise the last value:
the cost of a search, or the mean return.
"""

BUDGETS = ("iterations", "generations", "epochs", "instances")
"""Settings that are the length of a training; an untrained network has none of it."""


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
        cpu_s: CPU time of the process that trained, s.
    """

    seed: int
    network: Path | None = None
    measure: str = ""
    value: float = math.nan
    error: str = ""
    cpu_s: float = 0.0


def train_seeds(
    recipe: Recipe,
    tasks: Sequence[SeedTask],
    executor: ExecutorSettings,
    *,
    stop: Mapping[str, float] | None = None,
    report: Report | None = None,
) -> Iterator[SeedOutcome]:
    """Train with several seeds, each in a worker; yield the outcomes in the order of completion.

    A training writes the same files beside others as alone. A failed training does not stop the
    others. A single seed is trained in this process, with its rollouts on a local or Ray executor;
    several, or one on Slurm, run their rollouts in their worker.

    Args:
        recipe: the recipe; its seeds are those of the tasks.
        tasks: the trainings.
        executor: where the trainings, or the rollouts of a single one, run. The current folder, the
            folders of the tasks and all input files must be on a file system that its nodes share.
        stop: when to end a training before its budget, see `until`.
        report: called after each iteration of a single training.

    Raises:
        ExecutorError: the executor cannot start.
    """
    work = _Work(
        partial(recipe.trainer.train, recipe.inputs), recipe.settings, stop or {}, Path.cwd()
    )
    if len(tasks) == 1 and report is not None and not isinstance(executor, Slurm):
        in_here = executor in (Local(), Local(workers=1))
        yield _trained(work, tasks[0], IN_THIS_PROCESS if in_here else executor, report)
        return
    with open_executor(executor) as workers:
        for done in workers.run(partial(_trained_in_worker, work=work), tasks):
            yield done.result or SeedOutcome(tasks[done.index].seed, error=done.error)


class _Work(NamedTuple):
    """What the trainings of a recipe have in common; it can be pickled.

    Attributes:
        train: see `Trainer.train`, without the inputs.
        folder: the driver's current folder.
    """

    train: Callable[..., Path]
    settings: Any
    stop: Mapping[str, float]
    folder: Path


def _trained_in_worker(task: SeedTask, _: InputFiles, *, work: _Work) -> SeedOutcome:
    """Train with one seed in the driver's current folder; errors become one line."""
    try:
        with contextlib.chdir(work.folder):
            return _trained(work, task, IN_THIS_PROCESS, lambda _: None)
    except OSError as error:
        where = error.filename or task.folder
        return SeedOutcome(task.seed, error=f"{where}: {error.strerror or error}")
    except HpcosimError as error:  # of a bug, the executor adds where it was raised
        return SeedOutcome(task.seed, error=" ".join(str(error).split()))


def _trained(
    work: _Work, task: SeedTask, executor: ExecutorSettings, report: Report
) -> SeedOutcome:
    """Train with one seed in this process."""
    settings = dataclasses.replace(work.settings, seed=task.seed, executor=executor)
    began_s, watched = time.process_time(), until(work.stop, report)
    with warnings.catch_warnings():
        # Seeds that were complete before an interruption are not a surprise.
        warnings.filterwarnings("ignore", ".*the training is complete")
        try:
            network = work.train(task.folder, settings, resume=task.resume, report=watched)
        except TrainingStopped:
            raise TrainingError(
                f"{task.folder}: stopped before there was a network; --resume continues"
            ) from None
    cpu_s = time.process_time() - began_s
    return SeedOutcome(task.seed, network, *final_measure(task.folder), cpu_s=cpu_s)


def until(stop: Mapping[str, float], report: Report) -> Report:
    """Return a report that ends the training as soon as a criterion is met.

    Args:
        stop: `iterations`: number of iterations (or generations) in all; `minutes`: wall-clock time
            from now; another name: a measure of the training, which is at most the value.
        report: called before.

    Raises:
        TrainingError: when the training reports for the first time, a measure is unknown.
    """
    began_s = time.monotonic()

    def watched(done: Progress) -> None:
        report(done)
        minutes = (time.monotonic() - began_s) / 60.0
        for name, bound in stop.items():
            if name in ("iterations", "minutes"):
                met = (done.number if name == "iterations" else minutes) >= bound
            elif name in done.measures:
                met = done.measures[name] <= bound
            elif not done.measures:
                continue
            else:
                known = ", ".join(("iterations", "minutes", *done.measures))
                raise TrainingError(f"--stop {name}: expected one of {known}")
            if met:
                raise TrainingStopped

    return watched


def untrained(recipe: Recipe, folder: Path) -> Path:
    """Write the network of the first seed before its training, and return its path."""
    none = {name: 0 for name in BUDGETS if hasattr(recipe.settings, name)}
    for name in ("cloning_epochs", "validate_every"):
        if hasattr(recipe.settings, name):
            none[name] = 0
    settings = dataclasses.replace(
        recipe.settings, seed=recipe.seeds[0], executor=IN_THIS_PROCESS, **none
    )
    train = recipe.trainer.train
    return Path(train(recipe.inputs, folder, settings, resume=False, report=lambda _: None))


def best_of(outcomes: Sequence[SeedOutcome]) -> SeedOutcome | None:
    """Return the best training; None: no training was rated.

    The choice depends on validation and training only, never on an evaluation.
    """
    rated = [each for each in outcomes if each.network is not None and each.measure]
    return MEASURES[rated[0].measure](rated, key=lambda each: each.value) if rated else None


def final_measure(folder: Path) -> tuple[str, float]:
    """Return the name and the final value of the measure that rates a training; see `MEASURES`.

    Args:
        folder: folder of the training; see `curve.csv` in it.

    Raises:
        OSError: the folder has no learning curve.
    """
    with (folder / CURVE).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for name in MEASURES:
        if values := _values(rows, name):
            return name, min(values) if name == "validation" else values[-1]
    return "", math.nan


def _values(rows: Sequence[dict[str, str]], name: str) -> list[float]:
    values = [float(row.get(name, "nan")) for row in rows]
    return [value for value in values if not math.isnan(value)]
