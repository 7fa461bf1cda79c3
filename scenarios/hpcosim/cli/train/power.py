"""The command `hpcosim train power`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import typer

from hpcosim.cli.executors import AddressOption, executor_of
from hpcosim.cli.options import Force, Lenient, ScenarioFile, Set, names_of, overrides_of
from hpcosim.cli.train.options import (
    TRAINING,
    CheckpointEvery,
    LearningRate,
    Out,
    Resume,
    TrainingSeed,
    print_iteration,
    training_into,
    with_options,
)
from hpcosim.cli.train.seeds import (
    Seeds,
    SeedsExecutor,
    SeedsWorkers,
    check_alone,
    seeds_of,
    train_each,
)

Curriculum = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        help="Comma-separated workloads, in training order. real: the scenario's; sampled, "
        "synthetic: drawn from it.",
    ),
]
Days = Annotated[
    int, typer.Option(min=1, max=36_525, help="Length of the synthetic workload, in days.")
]
Interval = Annotated[
    float, typer.Option(min=1.0, max=1e9, help="Simulated time between two decisions, in s.")
]
Passes = Annotated[
    int,
    typer.Option(
        min=0, rich_help_panel=TRAINING, help="Passes through each workload of the curriculum."
    ),
]
Calendar = Annotated[
    bool, typer.Option("--calendar", help="Observe the time of day and the day of the week.")
]


def power(
    scenario: ScenarioFile,
    out: Out,
    force: Force = False,
    algorithm: Annotated[Literal["a2c", "ppo"], typer.Option(help="Learning algorithm.")] = "a2c",
    curriculum: Curriculum = "sampled,real,synthetic",
    days: Days = 365,
    interval_s: Interval = 1800.0,
    calendar: Calendar = False,
    changes: Set = None,
    lenient: Lenient = False,
    seed: TrainingSeed = None,
    seeds: Seeds = None,
    executor: SeedsExecutor = "local",
    workers: SeedsWorkers = None,
    address: AddressOption = None,
    resume: Resume = False,
    iterations: Passes = 10,
    learning_rate: LearningRate = None,
    checkpoint_every: CheckpointEvery = 1,
) -> None:
    """Train the power manager `rl` for a scenario's nodes and scheduler."""
    several = seeds_of(seed, seeds)
    settings = executor_of(executor, workers, address)
    if several is None:
        check_alone(executor, workers)
    with training_into(out, several, force=force, resume=resume):
        from hpcosim_papers.power.learners.train import ALGORITHMS, train_power

        training = with_options(
            ALGORITHMS[algorithm],
            curriculum=_workloads(curriculum),
            synthetic_days=days,
            interval_s=interval_s,
            calendar=calendar,
            iterations=iterations,
            learning_rate=learning_rate,
            seed=seed,
            checkpoint_every=checkpoint_every,
        )
        overrides = overrides_of(changes, None, lenient)
        train = partial(train_power, scenario, overrides=overrides)
        if several is not None:
            train_each(train, training, several, out, settings, resume=resume)
            return
        network = train(out, training, resume=resume, on_iteration=print_iteration)
        typer.echo(f"network: {network}")


def _workloads(curriculum: str) -> list[str]:
    """Return the names of a curriculum's workloads.

    Raises:
        ScenarioError: the list is empty.
    """
    from hpcosim_scenarios.errors import ScenarioError

    if not (names := names_of(curriculum)):
        raise ScenarioError("--curriculum: expected at least one of sampled, real, synthetic")
    return names
