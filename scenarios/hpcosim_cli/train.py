"""The command `hpcosim train`: train agents on a scenario."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from hpcosim_cli.errors import errors_in_one_line
from hpcosim_cli.options import Lenient, ScenarioFile, Set, overrides_of
from hpcosim_client.agents.pairing.settings import Objective, Sees

if TYPE_CHECKING:
    from hpcosim_training.learners.power.cross_entropy import Generation
    from hpcosim_training.learning.curve import Iteration
    from hpcosim_training.learning.settings import TrainingSettings

T = TypeVar("T", bound="TrainingSettings")

app = typer.Typer(help="Train agents on a scenario.", no_args_is_help=True)

# Options that all trainers share. What is not given keeps the default of the learner.
Out = Annotated[Path, typer.Option(help="Folder for the network, checkpoint and learning curve.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the training, not of the scenario.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes that make rollouts.")]
Iterations = Annotated[int | None, typer.Option(min=0, help="Rollouts; `power`: passes.")]
LearningRate = Annotated[float | None, typer.Option(min=1e-9, help="Learning rate of the actor.")]
ValidateEvery = Annotated[
    int | None, typer.Option(min=0, help="Iterations between validations; 0: keep the last actor.")
]
Patience = Annotated[
    int, typer.Option(min=0, help="Stop after so many validations without improvement; 0: never.")
]
CheckpointEvery = Annotated[int, typer.Option(min=1, help="Iterations between checkpoints.")]
Resume = Annotated[bool, typer.Option("--resume", help="Resume from the checkpoint.")]


@app.command()
def power(
    scenario: ScenarioFile,
    out: Out,
    curriculum: Annotated[
        str, typer.Option(help="Workloads to learn from, in order: sampled, real, synthetic.")
    ] = "sampled,real,synthetic",
    days: Annotated[
        int, typer.Option(min=1, max=36_525, help="Days that the synthetic workload fills.")
    ] = 365,
    interval_s: Annotated[
        float, typer.Option(min=1.0, max=1e9, help="Seconds between two decisions.")
    ] = 1800.0,
    calendar: Annotated[
        bool, typer.Option("--calendar", help="Observe the time of day and of week.")
    ] = False,
    algorithm: Annotated[Literal["a2c", "ppo"], typer.Option(help="Learning algorithm.")] = "a2c",
    iterations: Iterations = None,
    learning_rate: LearningRate = None,
    seed: Seed = 0,
    checkpoint_every: CheckpointEvery = 1,
    resume: Resume = False,
    changes: Set = None,
    lenient: Lenient = False,
) -> None:
    """Train a power manager for a scenario's nodes and scheduler; print a line an iteration."""
    with _training(out):
        from hpcosim_training.learners.power.settings import ALGORITHMS
        from hpcosim_training.learners.power.train import train_power

        training = _changed(
            ALGORITHMS[algorithm],
            curriculum=_names(curriculum),
            synthetic_days=days,
            interval_s=interval_s,
            calendar=calendar,
            iterations=iterations,
            learning_rate=learning_rate,
            seed=seed,
            checkpoint_every=checkpoint_every,
        )
        overrides = overrides_of(changes, None, lenient)
        network = train_power(
            scenario, out, training, resume=resume, overrides=overrides, on_iteration=_tell
        )
        typer.echo(f"network: {network}")


@app.command()
def adaptive(
    scenario: ScenarioFile,
    out: Out,
    wait_w: Annotated[
        float, typer.Option(min=0.0, help="Weight of a second of a job's wait, J/s.")
    ] = 350.0,
    origin_s: Annotated[
        float, typer.Option(min=0.0, help="The second of the week at which time is 0.")
    ] = 0.0,
    generations: Annotated[int, typer.Option(min=1, help="Generations of rules.")] = 12,
    candidates: Annotated[int, typer.Option(min=5, help="Rules in a generation.")] = 12,
    seed: Seed = 0,
    workers: Workers = 1,
    changes: Set = None,
    lenient: Lenient = False,
) -> None:
    """Search for timeouts that follow the hour and the load, for the power manager `adaptive`."""
    with _training(out):
        from hpcosim_training.learners.power.cross_entropy import AdaptiveSearch, train_adaptive

        search = AdaptiveSearch(
            wait_w=wait_w,
            origin_s=origin_s,
            generations=generations,
            candidates=candidates,
            seed=seed,
            workers=workers,
        )
        overrides = overrides_of(changes, None, lenient)
        rule = train_adaptive(
            scenario, out, search, overrides=overrides, on_generation=_tell_generation
        )
        typer.echo(f"rule: {rule}")


@app.command()
def pairing(
    scenario: ScenarioFile,
    out: Out,
    objective: Annotated[Objective, typer.Option(help="What to minimise.")] = "energy",
    sees: Annotated[Sees, typer.Option(help="What it observes of a pair.")] = "foreseen",
    placements: Annotated[
        Literal["one", "all"], typer.Option(help="How many jobs it may place at an event.")
    ] = "all",
    wait: Annotated[bool, typer.Option(help="Whether it may wait though something fits.")] = True,
    wait_s: Annotated[
        float | None, typer.Option(min=1e-3, help="Decide again after so long; default: at events.")
    ] = None,
    most_wait_s: Annotated[
        float, typer.Option(min=1e-3, help="The longest it may wait though something fits.")
    ] = 600.0,
    episodes: Annotated[
        int | None, typer.Option(min=1, help="Runs of the workload in each iteration.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Jobs of a run, drawn anew each time; default: all.")
    ] = None,
    kinds: Annotated[
        bool, typer.Option("--kinds", help="Draw runs of jobs of some profiles, too.")
    ] = False,
    validation: Annotated[
        Path | None, typer.Option(help="A scenario whose jobs validate it; default: its own.")
    ] = None,
    validation_windows: Annotated[
        int, typer.Option(min=0, help="Validate on so many drawn parts instead of the whole.")
    ] = 0,
    iterations: Iterations = None,
    learning_rate: LearningRate = None,
    validate_every: ValidateEvery = 1,
    patience: Patience = 0,
    seed: Seed = 0,
    workers: Workers = 1,
    checkpoint_every: CheckpointEvery = 1,
    resume: Resume = False,
    changes: Set = None,
    lenient: Lenient = False,
) -> None:
    """Train a pairing agent for a scenario's nodes and jobs; print a line an iteration."""
    with _training(out):
        from hpcosim_client.agents.pairing.settings import Pairing
        from hpcosim_training.environments.pairing_task import default_reward
        from hpcosim_training.learners.pairing.settings import Windows, training_for
        from hpcosim_training.learners.pairing.train import train_pairing

        training = _changed(
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
            workers=workers,
            checkpoint_every=checkpoint_every,
        )
        network = train_pairing(
            scenario,
            out,
            training,
            validation=validation,
            resume=resume,
            overrides=overrides_of(changes, None, lenient),
            on_iteration=_tell,
        )
        typer.echo(f"network: {network}")


@app.command("deep-eas")
def deep_eas(
    scenario: ScenarioFile,
    out: Out,
    form: Annotated[
        Literal["pairs", "picture", "paper"],
        typer.Option(
            help="pairs: ours; picture: the paper's picture, with PPO; paper: all as in it."
        ),
    ] = "pairs",
    pool: Annotated[
        int | None, typer.Option(min=0, help="Sequences to learn from; 0: always new ones.")
    ] = None,
    sequences: Annotated[int | None, typer.Option(min=1, help="Sequences an iteration.")] = None,
    trajectories: Annotated[int | None, typer.Option(min=2, help="Runs of each.")] = None,
    iterations: Iterations = None,
    learning_rate: LearningRate = None,
    validate_every: ValidateEvery = None,
    patience: Patience = 0,
    seed: Seed = 0,
    workers: Workers = 1,
    checkpoint_every: CheckpointEvery = 1,
    resume: Resume = False,
    changes: Set = None,
) -> None:
    """Train Deep-EAS on sequences like a scenario's; the defaults are the form's."""
    with _training(out):
        from hpcosim_training.learners.deep_eas.settings import FORMS
        from hpcosim_training.learners.deep_eas.train import train_deep_eas

        training = _changed(
            FORMS[form],
            pool=pool,
            sequences=sequences,
            trajectories=trajectories,
            iterations=iterations,
            learning_rate=learning_rate,
            validate_every=validate_every,
            patience=patience,
            seed=seed,
            workers=workers,
            checkpoint_every=checkpoint_every,
        )
        overrides = overrides_of(changes, None, lenient=False)
        network = train_deep_eas(
            scenario, out, training, resume=resume, overrides=overrides, on_iteration=_tell
        )
        typer.echo(f"network: {network}")


def _changed(training: T, **options: Any) -> T:
    """Return settings with the options that were given."""
    given = {name: value for name, value in options.items() if value is not None}
    return dataclasses.replace(training, **given)


def _names(curriculum: str) -> list[str]:
    """Return the workloads named.

    Raises:
        ScenarioError: there is none.
    """
    from hpcosim_scenarios.errors import ScenarioError

    if not (names := [name.strip() for name in curriculum.split(",") if name.strip()]):
        raise ScenarioError("no datasets to learn from were named")
    return names


@contextmanager
def _training(out: Path) -> Iterator[None]:
    """Report errors in one line: ours, a missing extra, and a folder that can't be written to."""
    from hpcosim_client.extras import rl_extra
    from hpcosim_server.errors import ResultsError

    with errors_in_one_line(), rl_extra("training"):
        try:
            yield
        except OSError as error:
            why = error.strerror or error
            raise ResultsError(f"what was learned can't be written to {out}: {why}") from error


def _tell(done: Iteration) -> None:
    shown = {"return": done.mean_return, **done.measures, "validation": done.validation}
    figures = "  ".join(f"{name} {value:.5g}" for name, value in shown.items() if value == value)
    typer.echo(f"{done.iteration:4} {done.phase:9}  {figures}  took {done.seconds:.1f} s")


def _tell_generation(generation: Generation) -> None:
    number, mean_j, best_j, median_j, seconds = generation
    typer.echo(
        f"{number:4}  cost: mean {mean_j:9.4g} J  best {best_j:9.4g} J  "
        f"median {median_j:9.4g} J  took {seconds:.1f} s"
    )
