"""The command `hpcosim train deep-eas`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import typer

from hpcosim.cli.executors import AddressOption, executor_of
from hpcosim.cli.options import Force, ScenarioFile, Set, overrides_of
from hpcosim.cli.train.options import (
    TRAINING,
    CheckpointEvery,
    Iterations,
    LearningRate,
    Out,
    Patience,
    Resume,
    TrainingExecutor,
    TrainingSeed,
    ValidateEvery,
    Workers,
    print_iteration,
    rollout_executor,
    training_into,
    with_options,
)
from hpcosim.cli.train.seeds import Seeds, seeds_of, train_each

Form = Annotated[
    Literal["pairs", "queue", "picture", "paper"],
    typer.Option(
        help="pairs: observe features of job-machine pairs, with PPO; queue: the same and the "
        "whole queue, on sequences of many lengths and loads; picture: the paper's observation, "
        "with PPO; paper: the paper's observation and algorithm, REINFORCE."
    ),
]
Pool = Annotated[
    int | None,
    typer.Option(
        min=0,
        rich_help_panel=TRAINING,
        help="Number of different job sequences. 0: new sequences in each iteration.",
    ),
]
Sequences = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=TRAINING, help="Job sequences per iteration."),
]
Trajectories = Annotated[
    int | None,
    typer.Option(min=2, rich_help_panel=TRAINING, help="Simulations of each job sequence."),
]


def deep_eas(
    scenario: ScenarioFile,
    out: Out,
    force: Force = False,
    form: Form = "pairs",
    changes: Set = None,
    seed: TrainingSeed = None,
    seeds: Seeds = None,
    executor: TrainingExecutor = "local",
    workers: Workers = None,
    address: AddressOption = None,
    resume: Resume = False,
    pool: Pool = None,
    sequences: Sequences = None,
    trajectories: Trajectories = None,
    iterations: Iterations = None,
    learning_rate: LearningRate = None,
    validate_every: ValidateEvery = None,
    patience: Patience = 0,
    checkpoint_every: CheckpointEvery = 1,
) -> None:
    """Train the scheduler `deep-eas` on job sequences drawn like the scenario's.

    The form sets the defaults of the training options. Default: 50 iterations (pairs), 60 (queue),
    40 (picture), 1000 (paper).
    """
    several = seeds_of(seed, seeds)
    with training_into(out, several, force=force, resume=resume):
        from hpcosim_papers.deep_eas.learners.settings import FORMS
        from hpcosim_papers.deep_eas.learners.train import train_deep_eas

        training = with_options(
            FORMS[form],
            pool=pool,
            sequences=sequences,
            trajectories=trajectories,
            iterations=iterations,
            learning_rate=learning_rate,
            validate_every=validate_every,
            patience=patience,
            seed=seed,
            executor=rollout_executor(executor, workers, address),
            checkpoint_every=checkpoint_every,
        )
        overrides = overrides_of(changes, None, lenient=False)
        train = partial(train_deep_eas, scenario, overrides=overrides)
        if several is not None:
            trainings = executor_of(executor, workers, address)
            train_each(train, training, several, out, trainings, resume=resume)
            return
        network = train(out, training, resume=resume, on_iteration=print_iteration)
        typer.echo(f"network: {network}")
