"""The training of the power manager `learned`."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_client import PolicyError
from hpcosim_experiments.executors import IN_THIS_PROCESS, ExecutorSettings, parallel_map
from hpcosim_gym.learners.spare_nodes.fit import Epoch, epochs
from hpcosim_gym.learners.spare_nodes.instances import LEAST_JOBS, Instance, drawn, workload_of
from hpcosim_gym.learners.spare_nodes.recording import Examples, joined, recorded
from hpcosim_gym.learning.curve import CURVE
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_schedulers.agents.spare_nodes.model import Facts, save_network

NETWORK = "network.safetensors"
VALIDATED = 5
"""One instance in each five is for validation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareNodesTraining:
    """Settings of the training.

    Attributes:
        instances: number of random clusters with jobs, >= 2; every fifth is for validation.
        jobs: largest number of jobs of a window that is not long, >= 40.
        samples: number of samples of the future for each decision.
        hidden: width of the hidden layer.
        epochs: number of passes over the examples.
        learning_rate: largest learning rate.
        seed: seed of the instances, the weights and the order of examples.
        executor: where the instances are simulated; default: in this process.
    """

    instances: int = 260
    jobs: int = 300
    samples: int = 48
    hidden: int = 24
    epochs: int = 10
    learning_rate: float = 3e-3
    seed: int = 0
    executor: ExecutorSettings = IN_THIS_PROCESS


class Row(NamedTuple):
    """A row of the learning curve: losses of an epoch; 0: the untrained network."""

    epoch: int
    training: float
    validation: float


def train_spare_nodes(
    path: Path,
    out: Path,
    training: SpareNodesTraining,
    *,
    also: Sequence[Path] = (),
    overrides: Mapping[str, Scalar] | None = None,
    on_recorded: Callable[[int], None] = lambda _: None,
    on_epoch: Callable[[Row], None] = lambda _: None,
) -> Path:
    """Train the network on forecasts at random moments, and what came after them.

    EASY runs with timeouts on random clusters with random windows of the workloads. At random
    moments the forecasts for the spare nodes are recorded, with what then came; the network learns
    to correct them. The folder gets `curve.csv` and `network.safetensors`, the network of the epoch
    with the least loss on the instances of validation. The same arguments give the same bytes for
    any number of workers.

    Args:
        path: the scenario file; its scheduler is ignored.
        out: the output folder.
        training: the settings.
        also: files of more scenarios.
        overrides: values that replace those of the scenarios, by dotted path.
        on_recorded: called with the number of instances that were simulated.
        on_epoch: called after each epoch.

    Returns:
        Path of the network, for the power manager `learned`.

    Raises:
        ScenarioError, WorkloadError: a scenario is invalid.
        PolicyError: no node was ever without a job.
        ValueError: a setting is out of range.
        OSError: the folder cannot be written.
    """
    if training.instances < 2 or training.jobs < LEAST_JOBS:
        raise ValueError(
            f"expected at least 2 instances of {LEAST_JOBS} jobs, got {training.instances} of "
            f"{training.jobs}"
        )
    workloads = [workload_of(each, overrides) for each in (path, *also)]
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(training.seed)
    instances = [drawn(workloads, training.jobs, rng) for _ in range(training.instances)]
    found = _examples(instances, training, on_recorded)
    checked = found[::VALIDATED]
    learned = [each for number, each in enumerate(found) if number % VALIDATED]
    if not all(sum(len(each.seen) for each in part) for part in (learned, checked)):
        raise PolicyError("no node was without a job; expected workloads with a lower load")
    best = _fitted(out, joined(learned), joined(checked), training, on_epoch)
    facts: Facts = {
        "seed": training.seed,
        "instances": training.instances,
        "samples": training.samples,
        "workloads": ", ".join(scenario.name for scenario, _ in workloads),
        "epoch": best.number,
        "validation": best.validation,
    }
    save_network(out / NETWORK, best.network, facts)
    return out / NETWORK


def _examples(
    instances: Sequence[Instance], training: SpareNodesTraining, on_recorded: Callable[[int], None]
) -> list[Examples]:
    """Return the examples of each instance."""
    found: list[Examples] = []
    record = partial(_recorded, training.samples)
    with parallel_map(training.executor) as parallel:
        for first in range(0, len(instances), VALIDATED):
            part = instances[first : first + VALIDATED]
            found += parallel(record, list(enumerate(part, first)))
            on_recorded(len(found))
    return found


def _recorded(samples: int, numbered: tuple[int, Instance]) -> Examples:
    number, instance = numbered
    return recorded(instance, samples, number)


def _fitted(
    out: Path,
    learned: Examples,
    checked: Examples,
    training: SpareNodesTraining,
    on_epoch: Callable[[Row], None],
) -> Epoch:
    """Return the epoch with the least loss of validation; write the curve."""
    best: Epoch | None = None
    with (out / CURVE).open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(Row._fields)
        for each in epochs(
            learned,
            checked,
            count=training.epochs,
            hidden=training.hidden,
            learning_rate=training.learning_rate,
            seed=training.seed,
        ):
            row = Row(each.number, each.training, each.validation)
            lines.writerow(row)
            on_epoch(row)
            if best is None or each.validation < best.validation:
                best = each
    assert best is not None
    return best
