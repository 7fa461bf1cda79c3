"""All trainings of a study, several at a time; what is there already is not done again."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from hpcosim_scenarios.running.progress import shown
from hpcosim_studies import FOLDER
from hpcosim_studies.ineps.experiments import EXPERIMENTS, UNTRAINED, Trained, trainings
from hpcosim_studies.ineps.outcomes import (
    Outcome,
    read_outcomes,
    try_out,
    write_outcomes,
)
from hpcosim_training.learners.pairing.train import ACTOR, train_pairing
from hpcosim_training.learning.curve import read_curve

AGENTS = "agents.csv"
WORKERS = 2


def train_all(study: str, out: Path, workers: int = WORKERS) -> list[Outcome]:
    """Train and try out all agents of a study; write `agents.csv`, and return what is in it.

    Args:
        study: a key of `EXPERIMENTS`.
        out: the folder; each training gets one in it.
        workers: processes to train in.
    """
    tasks = trainings(study)
    out.mkdir(parents=True, exist_ok=True)
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    try:
        running = [pool.submit(train_one, task, out) for task in tasks]
        with shown(study) as report:
            for number, done in enumerate(as_completed(running), 1):
                done.result()
                report(0.0, number, len(tasks))
    finally:
        pool.shutdown(cancel_futures=True)
    outcomes = _found(tasks, out)
    write_outcomes(out / AGENTS, outcomes)
    return outcomes


def train_one(task: Trained, out: Path) -> None:
    """Train an agent and try it out, if that was not done before."""
    folder = out / task.folder
    if (folder / AGENTS).exists():
        return
    experiment = EXPERIMENTS[task.study]
    train_pairing(FOLDER / "ineps" / f"{experiment.trained_on}.yaml", folder, task.training)
    training_s = sum(done.seconds for done in read_curve(folder))
    name = task.variant if task.trained else f"{UNTRAINED} {task.variant}"
    about = (name, task.objective, task.seed)
    outcomes = [try_out(folder / ACTOR, test, about, training_s) for test in experiment.tested_on]
    write_outcomes(folder / AGENTS, outcomes)


def _found(tasks: Sequence[Trained], out: Path) -> list[Outcome]:
    return [outcome for task in tasks for outcome in read_outcomes(out / task.folder / AGENTS)]
