"""Options that several trainers share, and the output of a training."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from hpcosim.cli.errors import errors_in_one_line
from hpcosim.cli.executors import EXECUTION, executor_of

if TYPE_CHECKING:
    from hpcosim_experiments.executors import ExecutorSettings
    from hpcosim_gym.learning.curve import Iteration
    from hpcosim_gym.learning.settings import TrainingSettings

T = TypeVar("T", bound="TrainingSettings")

TRAINING = "Training"

Out = Annotated[Path, typer.Option(help="Folder for the network, checkpoint and learning curve.")]
TrainingSeed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        help="Random seed of the training. `--set seed=N` sets the scenario's. Default: 0.",
    ),
]
TrainingExecutor = Annotated[
    Literal["local", "ray"],
    typer.Option(
        "--executor",
        rich_help_panel=EXECUTION,
        help="Where rollouts are simulated or, with --seeds, trainings run. local: on this "
        "machine; ray: on a Ray cluster (extra `ray`). The results are identical.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        "-j",
        min=1,
        rich_help_panel=EXECUTION,
        help="Workers that simulate rollouts. Default: 1, in this process; with ray, one per CPU "
        "of the cluster. With --seeds: trainings at a time. Default: one per CPU.",
    ),
]
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
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Resume an interrupted training from the checkpoint in --out."),
]


def rollout_executor(
    executor: Literal["local", "ray"], workers: int | None, address: str | None
) -> ExecutorSettings:
    """Return the settings of the executor of a training's rollouts.

    Args:
        executor: value of `--executor`.
        workers: value of `--workers`. A single local worker is this process.
        address: value of `--address`.

    Raises:
        BadParameter: an address is given for the local executor.
    """
    from hpcosim_experiments.executors import IN_THIS_PROCESS, Local

    settings = executor_of(executor, workers, address)
    return IN_THIS_PROCESS if settings in (Local(), Local(workers=1)) else settings


def with_options(training: T, **options: Any) -> T:
    """Return training settings with the options that were given.

    Args:
        training: the default settings.
        **options: values by field; None: keep the default.
    """
    given = {name: value for name, value in options.items() if value is not None}
    return dataclasses.replace(training, **given)


@contextmanager
def training_into(
    out: Path, seeds: Sequence[int] | None = None, *, force: bool, resume: bool | None = None
) -> Iterator[None]:
    """Check the folder of a training, and report the errors of the training in one line.

    If the training is interrupted, print how to continue it.

    Args:
        out: the folder.
        seeds: seeds of the trainings, each with a folder in `out`; None: one training.
        force: accept a folder that holds files.
        resume: continue from the checkpoint in the folder; None: the trainer writes none. With
            several seeds, those without a checkpoint start anew.
    """
    from hpcosim_client.errors import rl_extra
    from hpcosim_sim.errors import ResultsError
    from hpcosim_sim.record.folder import prepare

    with errors_in_one_line(), rl_extra("training"):
        folders = folders_of(out, seeds)
        if resume is not None:
            _check_checkpoints(out, folders, force=force, resume=resume)
        for folder in folders:
            prepare(folder, force=force or bool(resume))
        try:
            yield
        except KeyboardInterrupt:
            if resume is not None and any(map(has_checkpoint, folders)):
                typer.echo(f"{out}: repeat the command with --resume to continue", err=True)
            raise
        except OSError as error:
            why = error.strerror or error
            raise ResultsError(f"{out}: cannot write the training's files: {why}") from error


def has_checkpoint(out: Path) -> bool:
    """Return whether a folder has the checkpoint of a training."""
    from hpcosim_schedulers.agents.networks import CHECKPOINT

    return (out / CHECKPOINT).is_file()


def folders_of(out: Path, seeds: Sequence[int] | None) -> list[Path]:
    """Return the folders of the trainings: `out`, or one in it for each seed."""
    return [out] if seeds is None else [out / f"seed-{seed}" for seed in seeds]


def _check_checkpoints(out: Path, folders: Sequence[Path], *, force: bool, resume: bool) -> None:
    from hpcosim_gym.errors import CheckpointError

    if resume and force:
        raise CheckpointError(
            "--resume continues the training in --out, --force replaces it; remove one of them"
        )
    found = [folder for folder in folders if has_checkpoint(folder)]
    if found and not resume and not force:
        raise CheckpointError(
            f"{found[0]}: the folder holds the checkpoint of a training; --resume continues it, "
            "--force replaces it"
        )
    if resume and not found and (not out.exists() or out.is_dir()):
        raise CheckpointError(
            f"{folders[0]}: no checkpoint.safetensors to resume from; train without --resume"
        )


def print_iteration(done: Iteration) -> None:
    """Print the measures of an iteration, without those that are NaN."""
    shown = {"return": done.mean_return, **done.measures, "validation": done.validation}
    figures = "  ".join(f"{name} {value:.5g}" for name, value in shown.items() if value == value)
    typer.echo(f"{done.iteration:4} {done.phase:9}  {figures}  took {done.seconds:.1f} s")
