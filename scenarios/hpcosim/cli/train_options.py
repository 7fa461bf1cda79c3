"""Options that several trainers share, and the output of a training."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from hpcosim.cli.executors import EXECUTION, AddressOption, Execution
from hpcosim.cli.options import names_of
from hpcosim.cli.usage import RUN_FAILED, errors_in_one_line

if TYPE_CHECKING:
    from hpcosim_experiments.executors import ExecutorSettings
    from hpcosim_gym.learning.curve import Iteration
    from hpcosim_gym.learning.seeds import SeedOutcome
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


@dataclass(frozen=True)
class Rollouts:
    """The options of a training's seed and of where its rollouts are simulated."""

    seed: TrainingSeed = None
    executor: Annotated[
        Literal["local", "ray"],
        typer.Option(
            rich_help_panel=EXECUTION,
            help="Where rollouts are simulated or, with --seeds, trainings run. local: on this "
            "machine; ray: on a Ray cluster (extra `ray`). The results are identical.",
        ),
    ] = "local"
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            "-j",
            min=1,
            rich_help_panel=EXECUTION,
            help="Workers that simulate rollouts. Default: 1, in this process; with ray, one per "
            "CPU of the cluster. With --seeds: trainings at a time. Default: one per CPU.",
        ),
    ] = None
    address: AddressOption = None

    def settings(self) -> ExecutorSettings:
        """Return the settings of the executor of trainings."""
        return Execution(self.executor, self.workers, self.address).settings()

    def of_rollouts(self) -> ExecutorSettings:
        """Return the settings of the executor of rollouts; one local worker is this process."""
        from hpcosim_experiments.executors import IN_THIS_PROCESS, Local

        settings = self.settings()
        return IN_THIS_PROCESS if settings in (Local(), Local(workers=1)) else settings


@dataclass(frozen=True)
class Trainings(Rollouts):
    """The options of a training with one seed, or of several side by side."""

    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="SEEDS",
            help="Comma-separated random seeds in place of --seed, such as 0,1,2. Each is trained "
            "into --out/seed-N, in a process of its own. With --executor ray, the current folder, "
            "the input files and --out must be on a file system that all nodes share.",
        ),
    ] = None

    def several(self) -> list[int] | None:
        """Return the value of `--seeds`; None: not given."""
        if self.seeds is None:
            return None
        if self.seed is not None:
            raise typer.BadParameter("expected either --seed or --seeds")
        texts = names_of(self.seeds)
        if not texts or not all(text.isascii() and text.isdigit() for text in texts):
            raise typer.BadParameter(
                f"--seeds: expected integers >= 0, such as 0,1,2, got {self.seeds!r}"
            )
        numbers = [int(text) for text in texts]
        for number in numbers:
            if numbers.count(number) > 1:
                raise typer.BadParameter(f"--seeds: {number} is given twice")
        return numbers

    def train(
        self,
        train: Callable[..., Path],
        settings: Any,
        out: Path,
        *,
        made: str = "network",
        resume: bool | None = None,
        **reports: Any,
    ) -> None:
        """Train with one seed, and print the file, or with each of several.

        Args:
            train: trains into a folder with settings, see `train_seeds`.
            resume: resume the trainings that have a checkpoint; None: the trainer writes none.
        """
        if (seeds := self.several()) is not None:
            train_each(train, settings, seeds, out, self.settings(), resume=bool(resume))
            return
        if resume is not None:
            reports["resume"] = resume
        typer.echo(f"{made}: {train(out, settings, **reports)}")


@dataclass(frozen=True)
class TrainingsInProcess(Trainings):
    """The same, where a training with one seed runs in this process."""

    executor: Annotated[
        Literal["local", "ray"],
        typer.Option(
            rich_help_panel=EXECUTION,
            help="Where the trainings of --seeds run. local: on this machine; ray: on a Ray "
            "cluster (extra `ray`). The results are identical.",
        ),
    ] = "local"
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            "-j",
            min=1,
            rich_help_panel=EXECUTION,
            help="Trainings of --seeds at a time. Default: one per CPU.",
        ),
    ] = None

    def check(self) -> None:
        """Check the options."""
        several = self.several()
        self.settings()
        if several is None and self.executor == "ray":
            raise typer.BadParameter("--executor ray applies only with --seeds")
        if several is None and self.workers is not None:
            raise typer.BadParameter("--workers applies only with --seeds")


ALONE, ONE_OR_SEVERAL, IN_PROCESS = Rollouts(), Trainings(), TrainingsInProcess()


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


def train_each(
    train: Callable[..., Path],
    settings: Any,
    seeds: Sequence[int],
    out: Path,
    executor: ExecutorSettings,
    *,
    resume: bool = False,
) -> None:
    """Train with each seed, and print the final values, see `Trainings.train`."""
    from hpcosim_gym.learning.seeds import SeedTask, train_seeds
    from hpcosim_scenarios.running.in_process import shown

    tasks = [
        SeedTask(seed, folder, resume and has_checkpoint(folder))
        for seed, folder in zip(seeds, folders_of(out, seeds), strict=True)
    ]
    found: dict[int, SeedOutcome] = {}
    with shown("training", "runs") as report:
        for done in train_seeds(train, settings, tasks, executor):
            found[done.seed] = done
            report(0.0, len(found), len(tasks))
    outcomes = [found[seed] for seed in seeds]
    _print_values(outcomes)
    if failed := [done for done in outcomes if done.error]:
        _print_errors(failed)
        raise typer.Exit(RUN_FAILED)


def _print_values(outcomes: Sequence[SeedOutcome]) -> None:
    """Print a table of the final values, with their mean and standard deviation."""
    from rich.table import Table

    from hpcosim.cli.printing import print_table

    trained = [done for done in outcomes if not done.error]
    measure = next((done.measure for done in trained if done.measure), "")
    table = Table("seed", "network")
    if measure:
        table.add_column(measure, justify="right")
    for done in outcomes:
        value = f"{done.value:.5g}" if done.measure else ""
        table.add_row(str(done.seed), str(done.network or "failed"), *([value] if measure else []))
    values = [done.value for done in trained if done.measure]
    if len(values) > 1:
        table.add_section()
        table.add_row("", "mean", f"{statistics.mean(values):.5g}")
        table.add_row("", "standard deviation", f"{statistics.stdev(values):.5g}")
    print_table(table)


def _print_errors(failed: Sequence[SeedOutcome]) -> None:
    for error in dict.fromkeys(done.error for done in failed):
        seeds = [str(done.seed) for done in failed if done.error == error]
        typer.echo(f"error: seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}: {error}", err=True)
