"""The command `hpcosim train pairing`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from hpcosim.cli.checks import optional_scenario_file
from hpcosim.cli.executors import AddressOption, executor_of
from hpcosim.cli.options import Force, Lenient, ScenarioFile, Set, overrides_of
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
from hpcosim_papers.ineps.agent.settings import Objective, Sees

AGENT = "Agent"

ObjectiveOption = Annotated[
    Objective,
    typer.Option(
        rich_help_panel=AGENT,
        help="Quantity to minimise: energy, or edp (energy-delay product).",
    ),
]
Observation = Annotated[
    Sees,
    typer.Option(
        "--sees",
        rich_help_panel=AGENT,
        help="Features of a job-node pair. papers: those of Lopez et al. 2025; papers_no_energy: "
        "the same without energy; foreseen: forecasts of the pair's time and energy.",
    ),
]
Placements = Annotated[
    Literal["one", "all"],
    typer.Option(rich_help_panel=AGENT, help="Jobs to place per event: at most one, or all."),
]
Wait = Annotated[
    bool,
    typer.Option(rich_help_panel=AGENT, help="Allow the agent to wait although a job fits."),
]
WaitTime = Annotated[
    float | None,
    typer.Option(
        min=1e-3,
        rich_help_panel=AGENT,
        help="Decide again after this simulated time of waiting, in s. Default: at events only.",
    ),
]
MostWait = Annotated[
    float,
    typer.Option(
        min=1e-3,
        rich_help_panel=AGENT,
        help="Longest simulated time of waiting although a job fits, in s.",
    ),
]
Episodes = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=TRAINING, help="Simulations per iteration."),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        rich_help_panel=TRAINING,
        help="Consecutive jobs per simulation, from a random position. Default: all jobs.",
    ),
]
Kinds = Annotated[
    bool,
    typer.Option(
        "--kinds",
        rich_help_panel=TRAINING,
        help="Restrict most simulations to jobs of randomly chosen profiles.",
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
    int,
    typer.Option(
        min=0,
        rich_help_panel=TRAINING,
        help="Validate on this many random parts of the workload. 0: on the whole workload.",
    ),
]


def pairing(
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
    objective: ObjectiveOption = "energy",
    sees: Observation = "foreseen",
    placements: Placements = "all",
    wait: Wait = True,
    wait_s: WaitTime = None,
    most_wait_s: MostWait = 600.0,
    episodes: Episodes = None,
    jobs: Jobs = None,
    kinds: Kinds = False,
    validation: Validation = None,
    validation_windows: ValidationWindows = 0,
    iterations: Iterations = None,
    learning_rate: LearningRate = None,
    validate_every: ValidateEvery = 1,
    patience: Patience = 0,
    checkpoint_every: CheckpointEvery = 1,
) -> None:
    """Train the scheduler `pairing` for a scenario's nodes and jobs.

    The defaults of iterations, episodes and learning rate depend on --sees: 30, 16 and 0.0003 for
    foreseen; 100, 5 and 0.001 otherwise.
    """
    several = seeds_of(seed, seeds)
    with training_into(out, several, force=force, resume=resume):
        from hpcosim_papers.ineps.agent.settings import Pairing
        from hpcosim_papers.ineps.environments.pairing_task import default_reward
        from hpcosim_papers.ineps.learners.settings import Windows, training_for
        from hpcosim_papers.ineps.learners.train import train_pairing

        training = with_options(
            training_for(sees),
            pairing=Pairing(
                sees=sees,
                objective=objective,
                placements_per_event=placements,
                wait=wait,
                wait_s=wait_s,
                most_wait_s=most_wait_s,
            ),
            reward=default_reward(sees),
            windows=Windows(jobs, kinds),
            episodes=episodes,
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
        train = partial(train_pairing, scenario, validation=validation, overrides=overrides)
        if several is not None:
            trainings = executor_of(executor, workers, address)
            train_each(train, training, several, out, trainings, resume=resume)
            return
        network = train(out, training, resume=resume, on_iteration=print_iteration)
        typer.echo(f"network: {network}")
