"""The command `hpcosim train batch`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from hpcosim_cli.checks import optional_scenario_file
from hpcosim_cli.executors import AddressOption, executor_of
from hpcosim_cli.options import Force, Lenient, ScenarioFile, Set, overrides_of
from hpcosim_cli.train.options import (
    TRAINING,
    CheckpointEvery,
    Iterations,
    LearningRate,
    Out,
    Patience,
    Resume,
    TrainingExecutor,
    TrainingSeed,
    Workers,
    print_iteration,
    rollout_executor,
    training_into,
    with_options,
)
from hpcosim_cli.train.pairing import AGENT, Episodes
from hpcosim_cli.train.seeds import Seeds, seeds_of, train_each

CostOption = Annotated[
    Literal["wait", "bounded_slowdown", "energy"],
    typer.Option(rich_help_panel=AGENT, help="Quantity to minimise, the mean over all jobs."),
]
VisibleJobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1000,
        rich_help_panel=AGENT,
        help="Waiting jobs among which the agent chooses. Default: 64.",
    ),
]
Teacher = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=TRAINING,
        help="Rule that the agent imitates first, such as saf of the scheduler easy-saf. "
        "Default: saf.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        rich_help_panel=TRAINING,
        help="Consecutive jobs per simulation, from a random position. Default: 400.",
    ),
]
Validation = Annotated[
    Path | None,
    typer.Option(
        metavar="SCENARIO",
        callback=optional_scenario_file,
        rich_help_panel=TRAINING,
        help="Scenario whose jobs are the validation set. Default: SCENARIO.",
    ),
]
ValidationWindows = Annotated[
    int | None,
    typer.Option(
        min=1,
        rich_help_panel=TRAINING,
        help="Validate on this many parts of the workload, at equal distances. Default: 12.",
    ),
]
ValidateEvery = Annotated[
    int | None,
    typer.Option(
        min=0,
        rich_help_panel=TRAINING,
        help="Iterations between validations. 0: no validation; the last actor is saved. "
        "Default: 5.",
    ),
]


def batch(
    scenario: ScenarioFile,
    out: Out,
    force: Force = False,
    changes: Set = None,
    lenient: Lenient = False,
    seed: TrainingSeed = None,
    seeds: Seeds = None,
    executor: TrainingExecutor = "local",
    workers: Workers = None,
    address: AddressOption = None,
    resume: Resume = False,
    objective: CostOption = "bounded_slowdown",
    window_jobs: VisibleJobs = None,
    teacher: Teacher = None,
    episodes: Episodes = None,
    jobs: Jobs = None,
    validation: Validation = None,
    validation_windows: ValidationWindows = None,
    iterations: Iterations = None,
    learning_rate: LearningRate = None,
    validate_every: ValidateEvery = None,
    patience: Patience = 0,
    checkpoint_every: CheckpointEvery = 1,
) -> None:
    """Train the scheduler `batch`, which chooses the next job with EASY backfilling behind it.

    The agent takes any cluster: train it on the windows of one log, use it on others.
    """
    several = seeds_of(seed, seeds)
    with training_into(out, several, force=force, resume=resume):
        from hpcosim_training.learners.batch.settings import BatchTraining
        from hpcosim_training.learners.batch.train import train_batch

        training = with_options(
            BatchTraining(),
            objective=objective,
            window_jobs=window_jobs,
            teacher=teacher,
            episodes=episodes,
            episode_jobs=jobs,
            validation_windows=validation_windows,
            iterations=iterations,
            learning_rate=learning_rate,
            validate_every=validate_every,
            patience=patience,
            seed=seed,
            executor=rollout_executor(executor, workers, address),
            checkpoint_every=checkpoint_every,
        )
        overrides = overrides_of(changes, None, lenient)
        train = partial(train_batch, scenario, validation=validation, overrides=overrides)
        if several is not None:
            trainings = executor_of(executor, workers, address)
            train_each(train, training, several, out, trainings, resume=resume)
            return
        network = train(out, training, resume=resume, on_iteration=print_iteration)
        typer.echo(f"network: {network}")
