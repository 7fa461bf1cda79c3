"""The command `hpcosim train spare-nodes`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcosim.cli.checks import scenario_files
from hpcosim.cli.executors import AddressOption
from hpcosim.cli.options import Force, Lenient, ScenarioFile, Set, overrides_of
from hpcosim.cli.train.options import (
    Out,
    TrainingExecutor,
    TrainingSeed,
    Workers,
    rollout_executor,
    training_into,
)

if TYPE_CHECKING:
    from hpcosim_gym.learners.spare_nodes.train import Row

Also = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="SCENARIO",
        help="Another scenario, whose workload is as likely as the first. Repeatable.",
        callback=lambda paths: scenario_files(paths or []),
    ),
]


def spare_nodes(
    scenario: ScenarioFile,
    out: Out,
    force: Force = False,
    instances: Annotated[
        int, typer.Option(min=2, help="Random clusters with windows of the workloads.")
    ] = 260,
    jobs: Annotated[int, typer.Option(min=40, help="Most jobs of a short window.")] = 300,
    samples: Annotated[int, typer.Option(min=1, help="Samples of the future per moment.")] = 48,
    hidden: Annotated[int, typer.Option(min=1, max=4096, help="Width of the hidden layer.")] = 24,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the recorded moments.")] = 10,
    also: Also = None,
    changes: Set = None,
    lenient: Lenient = False,
    seed: TrainingSeed = None,
    executor: TrainingExecutor = "local",
    workers: Workers = None,
    address: AddressOption = None,
) -> None:
    """Train the network of the power manager `learned`.

    EASY runs with timeouts on random clusters with windows of the workloads. From the forecasts at
    random moments, and what came after them, the network learns to correct the forecasts.
    """
    with training_into(out, force=force):
        from hpcosim_gym.learners.spare_nodes.train import SpareNodesTraining, train_spare_nodes

        training = SpareNodesTraining(
            instances=instances,
            jobs=jobs,
            samples=samples,
            hidden=hidden,
            epochs=epochs,
            seed=seed or 0,
            executor=rollout_executor(executor, workers, address),
        )
        train = partial(train_spare_nodes, on_recorded=_print_recorded, on_epoch=_print_epoch)
        overrides = overrides_of(changes, None, lenient)
        network = train(scenario, out, training, also=also or (), overrides=overrides)
        typer.echo(f"network: {network}")


def _print_recorded(instances: int) -> None:
    typer.echo(f"{instances:4}  instances simulated")


def _print_epoch(row: Row) -> None:
    typer.echo(f"{row.epoch:4}  loss: training {row.training:.5f}  validation {row.validation:.5f}")
