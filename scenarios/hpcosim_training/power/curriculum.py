"""Training through a sequence of workloads, from which an actor and a learning curve come."""

from __future__ import annotations

import csv
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hpcosim_client.agents.node_power.network import About, save_actor
from hpcosim_training.power.learner import Learner
from hpcosim_training.power.lockstep import Totals
from hpcosim_workloads.table import JobTable

ACTOR = "actor.safetensors"
CURVE = "curve.csv"
COLUMNS = ("epoch", "dataset", "steps", "mean_reward", "wasted_j", "mean_wait_s", "seconds")


class Dataset(NamedTuple):
    """A workload to learn from.

    Attributes:
        name: what it is called in the learning curve.
        jobs: it.
        origin_s: the second of the week at which its time is 0.
    """

    name: str
    jobs: JobTable
    origin_s: float = 0.0


class Epoch(NamedTuple):
    """What came of one workload, learned from once.

    Attributes:
        number: counted from 1 over the whole training.
        dataset: the workload's name.
        totals: what the runs came to, while the actor drew its actions by chance.
        seconds: how long it took, on a clock on the wall.
    """

    number: int
    dataset: str
    totals: Totals
    seconds: float


Told = Callable[[Epoch], None]


def train(
    learner: Learner,
    curriculum: Sequence[Dataset],
    epochs: int,
    out: Path,
    told: Told = lambda _: None,
) -> Path:
    """Learn from each workload `epochs` times, one workload after the other.

    Into the folder go `curve.csv`, a line for each epoch, the actor after each epoch,
    `epoch-003-real.safetensors`, and in the end `actor.safetensors`.

    Args:
        learner: who learns.
        curriculum: the workloads, in this order.
        epochs: how often it learns from each.
        out: the folder.
        told: told of each epoch when it is over.

    Returns:
        The actor's file.

    Raises:
        OSError: the folder can't be written to.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (out / CURVE).open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(COLUMNS)
        for epoch in _epochs(learner, curriculum, epochs):
            lines.writerow((epoch.number, epoch.dataset, *epoch.totals, f"{epoch.seconds:.1f}"))
            file.flush()
            name = f"epoch-{epoch.number:03}-{epoch.dataset}.safetensors"
            save_actor(out / name, learner.actor, about(learner))
            told(epoch)
    save_actor(out / ACTOR, learner.actor, about(learner))
    return out / ACTOR


def _epochs(learner: Learner, curriculum: Sequence[Dataset], epochs: int) -> Iterator[Epoch]:
    number = 0
    for dataset in curriculum:
        for _ in range(epochs):
            number += 1
            began_s = time.monotonic()
            totals = learner.epoch(dataset.jobs, dataset.origin_s)
            yield Epoch(number, dataset.name, totals, time.monotonic() - began_s)


def about(learner: Learner) -> About:
    """Return what is to be said in the file of a learner's actor."""
    task = learner.task
    said: dict[str, str | int | float | bool] = {
        "algorithm": type(learner).__name__,
        "seed": learner.seed,
    }
    return About(
        shape=learner.shape,
        interval_s=task.interval_s,
        origin_s=task.origin_s,
        training=said
        | dataclasses.asdict(learner.settings)
        | {f"reward_{name}": value for name, value in dataclasses.asdict(task.reward).items()},
    )
