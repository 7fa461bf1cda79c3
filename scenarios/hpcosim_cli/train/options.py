"""Options that several trainers share, and the output of a training."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hpcosim_cli.errors import errors_in_one_line

if TYPE_CHECKING:
    from hpcosim_training.learning.curve import Iteration
    from hpcosim_training.learning.settings import TrainingSettings

T = TypeVar("T", bound="TrainingSettings")

TRAINING = "Training"

Out = Annotated[Path, typer.Option(help="Folder for the network, checkpoint and learning curve.")]
TrainingSeed = Annotated[
    int,
    typer.Option(
        "--seed", min=0, help="Random seed of the training. `--set seed=N` sets the scenario's."
    ),
]
Workers = Annotated[int, typer.Option(min=1, help="Processes that simulate rollouts.")]
Iterations = Annotated[
    int | None,
    typer.Option(
        min=0, rich_help_panel=TRAINING, help="Iterations: one rollout and one update each."
    ),
]
LearningRate = Annotated[
    float | None,
    typer.Option(min=1e-9, rich_help_panel=TRAINING, help="Learning rate of the actor."),
]
ValidateEvery = Annotated[
    int | None,
    typer.Option(
        min=0,
        rich_help_panel=TRAINING,
        help="Iterations between validations. 0: no validation; the last actor is saved.",
    ),
]
Patience = Annotated[
    int,
    typer.Option(
        min=0,
        rich_help_panel=TRAINING,
        help="Stop after this many validations in a row without improvement. 0: never.",
    ),
]
CheckpointEvery = Annotated[
    int,
    typer.Option(min=1, rich_help_panel=TRAINING, help="Iterations between checkpoints."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume from the checkpoint in --out.")]


def with_options(training: T, **options: Any) -> T:
    """Return training settings with the options that were given.

    Args:
        training: the default settings.
        **options: values by field; None: keep the default.
    """
    given = {name: value for name, value in options.items() if value is not None}
    return dataclasses.replace(training, **given)


@contextmanager
def training_into(out: Path, *, force: bool, resume: bool = False) -> Iterator[None]:
    """Check the folder of a training, and report the errors of the training in one line.

    Args:
        out: the folder.
        force: accept a folder that holds files.
        resume: the folder holds the checkpoint of the training.
    """
    from hpcosim_client.extras import rl_extra
    from hpcosim_server.errors import ResultsError
    from hpcosim_server.record.folder import prepare

    with errors_in_one_line(), rl_extra("training"):
        prepare(out, force=force or resume)
        if resume:
            _check_checkpoint(out)
        try:
            yield
        except OSError as error:
            why = error.strerror or error
            raise ResultsError(f"{out}: cannot write the training's files: {why}") from error


def _check_checkpoint(out: Path) -> None:
    from hpcosim_training.errors import CheckpointError
    from hpcosim_training.learning.checkpoint import CHECKPOINT

    if not (out / CHECKPOINT).exists():
        raise CheckpointError(f"{out}: no {CHECKPOINT} to resume from; train without --resume")


def print_iteration(done: Iteration) -> None:
    """Print the measures of an iteration, without those that are NaN."""
    shown = {"return": done.mean_return, **done.measures, "validation": done.validation}
    figures = "  ".join(f"{name} {value:.5g}" for name, value in shown.items() if value == value)
    typer.echo(f"{done.iteration:4} {done.phase:9}  {figures}  took {done.seconds:.1f} s")
