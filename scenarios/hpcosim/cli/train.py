"""The command `hpcosim train`: it carries out the recipe of a training."""

from __future__ import annotations

import difflib
import shutil
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcosim.cli.executors import DEFAULT, Execution
from hpcosim.cli.options import PLATFORM, Force, head_of, names_of, overrides_of
from hpcosim.cli.usage import RUN_FAILED, errors_in_one_line, with_groups

if TYPE_CHECKING:
    from hpcosim_experiments.executors import ExecutorSettings
    from hpcosim_gym.learning.recipe import Recipe
    from hpcosim_gym.learning.seeds import SeedOutcome, SeedTask
    from hpcosim_gym.learning.trainers import Progress


@with_groups
def train(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Recipe (YAML), or the name of a shipped one. Default: list those.",
        ),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the networks, with a folder for each seed. Default: results/NAME."
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="SEEDS",
            help="Comma-separated random seeds in place of those of the recipe, such as 0,1,2.",
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Change a value of the recipe, such as budget.iterations=10. Repeatable.",
        ),
    ] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="End a training early: iterations=N, minutes=M, or as soon as a measure, such as "
            "validation, is at most a value. --resume continues it. Repeatable.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Resume the trainings that have a checkpoint in --out."),
    ] = False,
    force: Force = False,
    network: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Evaluate this network in place of a training; --out has the runs."
        ),
    ] = None,
    execution: Execution = DEFAULT,
) -> None:
    """Train a scheduler or a power manager by a recipe, with each of its seeds.

    Several seeds are trained side by side; of a single one, --workers simulates the rollouts. Then
    the networks run beside rules, if the recipe has an evaluation. Needs the extra `rl`.
    """
    with errors_in_one_line():
        if not file:
            _print_recipes()
            return
        from hpcosim_client.errors import rl_extra
        from hpcosim_gym.learning.recipe import load_recipe

        executor = execution.settings()
        criteria, overrides = _criteria(stop or []), overrides_of(changes, None, lenient=False)
        if seeds is not None:
            overrides = {**(overrides or {}), "seeds": _numbers(seeds)}
        with rl_extra("training"):
            recipe = load_recipe(_recipe_file(file), overrides)
            folder = out or Path("results") / recipe.name
            if network is not None:
                _evaluate_one(recipe, network, folder, executor)
                return
            with _training_into(folder, recipe, force=force, resume=resume) as tasks:
                if recipe.search is not None:
                    recipe = _searched(recipe, folder / "search", executor)
                outcomes = _train(recipe, tasks, executor, criteria)
                _print_values(outcomes, folder)
                if failed := [done for done in outcomes if done.error]:
                    _print_errors(failed)
                    raise typer.Exit(RUN_FAILED)
                if recipe.evaluation is not None:
                    _evaluate(recipe, outcomes, folder, executor)


def _recipe_file(name: str) -> Path:
    """Return the file of a recipe that is named by its path or, if shipped, by its name."""
    from hpcosim_scenarios.shipped import shipped_recipes, shipped_scenarios

    path, shipped = Path(name), shipped_recipes()
    if name in shipped_scenarios() or (path.is_file() and PLATFORM.search(head_of(path))):
        raise typer.BadParameter(
            f"{name} is a scenario; expected a recipe, which names it in environment.scenario"
        )
    if path.is_file():
        return path
    if name in shipped:
        return shipped[name]
    if path.exists():
        raise typer.BadParameter(f"{path} is not a regular file; expected a recipe (YAML)")
    near = difflib.get_close_matches(name, shipped, n=1)
    advice = f"did you mean {near[0]}?" if near else f"shipped are {', '.join(shipped)}"
    raise typer.BadParameter(f"{path}: no such file or shipped recipe; {advice}")


def _print_recipes() -> None:
    from hpcosim_scenarios.shipped import describe_scenario, shipped_recipes

    for name, path in shipped_recipes().items():
        typer.echo(f"{name:24} {describe_scenario(path)}")


def _numbers(text: str) -> list[int]:
    """Return the value of `--seeds`."""
    texts = names_of(text)
    if not texts or not all(each.isascii() and each.isdigit() for each in texts):
        raise typer.BadParameter(f"--seeds: expected integers >= 0, such as 0,1,2, got {text!r}")
    return [int(each) for each in texts]


def _criteria(texts: Sequence[str]) -> dict[str, float]:
    """Return the values of `--stop` by name."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise typer.BadParameter(
                f"--stop: expected NAME=VALUE, such as minutes=30, got {text!r}"
            ) from None
    return found


@contextmanager
def _training_into(
    out: Path, recipe: Recipe, *, force: bool, resume: bool
) -> Iterator[list[SeedTask]]:
    """Check the folders of the trainings, and yield them.

    If a training is interrupted, print how to continue it.
    """
    from hpcosim_gym.learning.seeds import SeedTask
    from hpcosim_sim.errors import ResultsError
    from hpcosim_sim.record.folder import prepare

    folders = [out / f"seed-{seed}" for seed in recipe.seeds]
    _check_checkpoints(out, folders, force=force, resume=resume)
    for folder in folders:
        prepare(folder, force=force or resume)
    pairs = zip(recipe.seeds, folders, strict=True)
    try:
        yield [SeedTask(seed, each, resume and _has_checkpoint(each)) for seed, each in pairs]
    except KeyboardInterrupt:
        if any(map(_has_checkpoint, folders)):
            typer.echo(f"{out}: repeat the command with --resume to continue", err=True)
        raise
    except OSError as error:
        why = error.strerror or error
        raise ResultsError(f"{out}: cannot write the training's files: {why}") from error


def _has_checkpoint(out: Path) -> bool:
    from hpcosim_schedulers.agents.networks import CHECKPOINT

    return (out / CHECKPOINT).is_file()


def _check_checkpoints(out: Path, folders: Sequence[Path], *, force: bool, resume: bool) -> None:
    from hpcosim_gym.errors import CheckpointError

    if resume and force:
        raise CheckpointError(
            "--resume continues the training in --out, --force replaces it; remove one of them"
        )
    found = [folder for folder in folders if _has_checkpoint(folder)]
    if found and not resume and not force:
        raise CheckpointError(
            f"{found[0]}: the folder holds the checkpoint of a training; --resume continues it, "
            "--force replaces it"
        )
    if resume and not found and (not out.exists() or out.is_dir()):
        raise CheckpointError(
            f"{folders[0]}: no checkpoint.safetensors to resume from; train without --resume"
        )


def _train(
    recipe: Recipe,
    tasks: Sequence[SeedTask],
    executor: ExecutorSettings,
    stop: dict[str, float],
) -> list[SeedOutcome]:
    """Return the outcomes of the trainings in the order of the seeds."""
    from hpcosim_gym.learning.seeds import train_seeds
    from hpcosim_scenarios.running.in_process import shown

    if len(tasks) == 1:
        return list(train_seeds(recipe, tasks, executor, stop=stop, report=_print_progress))
    found: dict[int, SeedOutcome] = {}
    with shown("training", "runs") as report:
        for done in train_seeds(recipe, tasks, executor, stop=stop):
            found[done.seed] = done
            report(0.0, len(found), len(tasks))
    return [found[task.seed] for task in tasks]


def _print_progress(done: Progress) -> None:
    typer.echo(f"{done.number:4} {done.text}")


def _searched(recipe: Recipe, out: Path, executor: ExecutorSettings) -> Recipe:
    """Return a recipe with the settings that train best."""
    from hpcosim_gym.learning.settings_search import search_settings

    found = search_settings(recipe, out, executor, partial(typer.echo, err=True))
    values = "  ".join(f"{path}={value}" for path, value in found.values.items())
    typer.echo(f"best settings: {values}  ({found.value:.5g})")
    return found.recipe


def _print_values(outcomes: Sequence[SeedOutcome], out: Path) -> None:
    """Print a table of the final values, with mean and standard deviation; keep the best."""
    from rich.table import Table

    from hpcosim.cli.printing import print_table
    from hpcosim_gym.learning.seeds import best_of

    trained = [done for done in outcomes if not done.error]
    measure = next((done.measure for done in trained if done.measure), "")
    table = Table("seed", "network")
    table.add_column("CPU s", justify="right")
    if measure:
        table.add_column(measure, justify="right")
    for done in outcomes:
        value = f"{done.value:.5g}" if done.measure else ""
        cells = [str(done.seed), str(done.network or "failed"), f"{done.cpu_s:.1f}"]
        table.add_row(*cells, *([value] if measure else []))
    values = [done.value for done in trained if done.measure]
    if len(values) > 1:
        table.add_section()
        table.add_row("", "mean", "", f"{statistics.mean(values):.5g}")
        table.add_row("", "standard deviation", "", f"{statistics.stdev(values):.5g}")
    print_table(table)
    if (best := best_of(trained)) is not None and best.network is not None:
        shutil.copyfile(best.network, out / best.network.name)
        typer.echo(f"network: {out / best.network.name}")


def _print_errors(failed: Sequence[SeedOutcome]) -> None:
    for error in dict.fromkeys(done.error for done in failed):
        seeds = [str(done.seed) for done in failed if done.error == error]
        typer.echo(f"error: seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}: {error}", err=True)


def _evaluate_one(recipe: Recipe, network: Path, out: Path, executor: ExecutorSettings) -> None:
    """Evaluate a network, write the table beside it, and print it."""
    from hpcosim_gym.learning.evaluation import evaluate, evaluation_text, write_evaluation

    if recipe.evaluation is None:
        raise typer.BadParameter(f"--network: the recipe {recipe.path} has no evaluation")
    if not network.is_file():
        raise typer.BadParameter(f"--network: {network}: no such file")
    say = partial(typer.echo, err=True)
    table = evaluate(recipe, {network.stem: network}, out, executor, say)[network.stem]
    write_evaluation(table, network)
    typer.echo(evaluation_text(table))


def _evaluate(
    recipe: Recipe, outcomes: Sequence[SeedOutcome], out: Path, executor: ExecutorSettings
) -> None:
    """Evaluate the networks, write a table beside each, and print that of the best."""
    from hpcosim_gym.learning.evaluation import (
        UNTRAINED,
        evaluate,
        evaluation_text,
        write_evaluation,
    )
    from hpcosim_gym.learning.seeds import best_of, untrained

    trained = {f"seed {done.seed}": done.network for done in outcomes if done.network is not None}
    best = best_of(outcomes)
    tables = evaluate(
        recipe,
        {**trained, UNTRAINED: untrained(recipe, out / UNTRAINED)},
        out / "evaluation",
        executor,
        partial(typer.echo, err=True),
    )
    for label, table in tables.items():
        write_evaluation(table, trained[label])
    shown = tables[f"seed {best.seed}"] if best is not None else next(iter(tables.values()))
    if best is not None and best.network is not None:
        write_evaluation(shown, out / best.network.name)
    text = evaluation_text(shown)
    (out / "evaluation.md").write_text(text, encoding="utf-8")
    typer.echo(text)
