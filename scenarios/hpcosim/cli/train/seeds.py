"""The option `--seeds` of the trainers: several trainings side by side."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hpcosim.cli.errors import RUN_FAILED
from hpcosim.cli.executors import EXECUTION
from hpcosim.cli.options import names_of
from hpcosim.cli.train.options import folders_of, has_checkpoint

if TYPE_CHECKING:
    from hpcosim_experiments.executors import ExecutorSettings
    from hpcosim_gym.learning.seeds import SeedOutcome

Seeds = Annotated[
    str | None,
    typer.Option(
        "--seeds",
        metavar="SEEDS",
        help="Comma-separated random seeds in place of --seed, such as 0,1,2. Each is trained into "
        "--out/seed-N, in a process of its own. With --executor ray, the current folder, the input "
        "files and --out must be on a file system that all nodes share.",
    ),
]
SeedsExecutor = Annotated[
    Literal["local", "ray"],
    typer.Option(
        "--executor",
        rich_help_panel=EXECUTION,
        help="Where the trainings of --seeds run. local: on this machine; ray: on a Ray cluster "
        "(extra `ray`). The results are identical.",
    ),
]
SeedsWorkers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        "-j",
        min=1,
        rich_help_panel=EXECUTION,
        help="Trainings of --seeds at a time. Default: one per CPU.",
    ),
]


def seeds_of(seed: int | None, seeds: str | None) -> list[int] | None:
    """Return the value of `--seeds`; None: not given.

    Args:
        seed: value of `--seed`; None: not given.
        seeds: value of `--seeds`; None: not given.

    Raises:
        BadParameter: both are given, or a seed is no integer >= 0 or is given twice.
    """
    if seeds is None:
        return None
    if seed is not None:
        raise typer.BadParameter("expected either --seed or --seeds")
    texts = names_of(seeds)
    if not texts or not all(text.isascii() and text.isdigit() for text in texts):
        raise typer.BadParameter(f"--seeds: expected integers >= 0, such as 0,1,2, got {seeds!r}")
    numbers = [int(text) for text in texts]
    for number in numbers:
        if numbers.count(number) > 1:
            raise typer.BadParameter(f"--seeds: {number} is given twice")
    return numbers


def check_alone(executor: str, workers: int | None) -> None:
    """Check the options of a training with one seed that runs in this process.

    Args:
        executor: value of `--executor`.
        workers: value of `--workers`.

    Raises:
        BadParameter: an option requires `--seeds`.
    """
    given = {"--executor ray": executor == "ray", "--workers": workers is not None}
    for name in (name for name, found in given.items() if found):
        raise typer.BadParameter(f"{name} applies only with --seeds")


def train_each(
    train: Callable[..., Path],
    settings: Any,
    seeds: Sequence[int],
    out: Path,
    executor: ExecutorSettings,
    *,
    resume: bool = False,
) -> None:
    """Train with each seed, and print the final values.

    Args:
        train: trains into a folder with settings, see `train_seeds`.
        settings: settings of the training.
        seeds: the seeds.
        out: folder of the folders of the trainings.
        executor: where the trainings run.
        resume: resume the trainings that have a checkpoint.

    Raises:
        Exit: a training failed.
    """
    from hpcosim_gym.learning.seeds import SeedTask, train_seeds
    from hpcosim_scenarios.running.progress import shown

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

    from hpcosim.cli.report import print_table

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
    """Print each error once, with its seeds."""
    for error in dict.fromkeys(done.error for done in failed):
        seeds = [str(done.seed) for done in failed if done.error == error]
        typer.echo(f"error: seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}: {error}", err=True)
