"""The commands `hpcosim experiment` and `hpcosim reproduce`: many runs, and the runs of a paper."""

from __future__ import annotations

import difflib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hpcosim.cli.executors import DEFAULT, Execution
from hpcosim.cli.options import Force, Set, experiment_file, overrides_of
from hpcosim.cli.usage import RUN_FAILED, errors_in_one_line, with_groups

if TYPE_CHECKING:
    from hpcosim_experiments.carry_out import CarriedOut
    from hpcosim_experiments.estimate import DryRun
    from hpcosim_experiments.executors import ExecutorSettings

MOST_FAILURES = 20


@with_groups
def experiment(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Experiment file (YAML), or the name of a shipped experiment, such as "
            "backfilling.",
            callback=experiment_file,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for results. Results of an earlier start in it are used again. "
            "Default: results/NAME."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="List the runs and estimate their number, jobs and time; run nothing."
        ),
    ] = False,
    table_format: Annotated[
        Literal["parquet", "csv"], typer.Option("--format", help="Format of the tables.")
    ] = "parquet",
    changes: Set = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Run all runs again and replace the results in --out. Other files in it are kept.",
        ),
    ] = False,
    execution: Execution = DEFAULT,
) -> None:
    """Run the runs of an experiment, and write their results as tables and as a report."""
    with errors_in_one_line():
        from hpcosim.cli.printing import print_warning
        from hpcosim_experiments.carry_out import run_experiment
        from hpcosim_experiments.estimate import dry_run as plan_only

        settings = execution.settings()
        overrides = overrides_of(changes, None, lenient=False)
        if dry_run:
            planned = plan_only(file, out=out, overrides=overrides, force=force, warn=print_warning)
            print_dry_run(planned, settings)
            return
        done = run_experiment(
            file,
            out=out,
            overrides=overrides,
            executor=settings,
            table_format=table_format,
            force=force,
            warn=print_warning,
            say=lambda text: typer.echo(text, err=True),
        )
        if print_outcome(done):
            raise typer.Exit(RUN_FAILED)


@with_groups
def reproduce(
    study: Annotated[
        str, typer.Argument(metavar="STUDY", help="Study to run. Default: list all studies.")
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for tables and figures. Default: results/STUDY."),
    ] = None,
    force: Force = False,
    execution: Execution = DEFAULT,
    train: Annotated[
        bool,
        typer.Option(
            "--train", help="Train the networks of the study first, which can take hours."
        ),
    ] = False,
) -> None:
    """Run the experiments of a paper, and write their tables and figures.

    Results of runs are stored in the folder: a second start simulates only what is missing.
    """
    with errors_in_one_line():
        from hpcosim.cli.printing import print_warning
        from hpcosim_papers.studies.study import STUDIES, Request, reproduce_study
        from hpcosim_scenarios.errors import ScenariosError

        if not study:
            typer.echo("\n".join(f"{name:18} {entry.about}" for name, entry in STUDIES.items()))
            return
        if study not in STUDIES:
            near = difflib.get_close_matches(study, STUDIES, n=1)
            advice = f"did you mean {near[0]}? " if near else ""
            raise ScenariosError(
                f"unknown study {study!r}; {advice}`hpcosim reproduce` lists all studies"
            )
        settings = execution.settings()
        folder = out or Path("results") / study
        say = partial(typer.echo, err=True)
        reproduce_study(Request(study, folder, train, settings, force, print_warning, say))
        typer.echo(f"results: {folder}")


def print_dry_run(done: DryRun, settings: ExecutorSettings) -> None:
    """Print the runs of an experiment, then their number, jobs and time."""
    from rich.table import Table

    from hpcosim.cli.printing import print_table

    table = Table(*done.plan.axes, "result")
    table.add_column("jobs", justify="right")
    for run in done.plan.runs:
        state = "stored" if run.key in done.stored else "to simulate"
        jobs = f"{done.jobs[run.key]:,}" if run.key in done.jobs else ""
        table.add_row(*map(str, run.labels.values()), state, jobs)
    print_table(table)
    typer.echo(done.summary)
    if done.jobs:
        typer.echo(f"jobs to simulate: {sum(done.jobs.values()):,}")
        typer.echo(f"estimated time: {_time(done, settings)}")


def _time(done: DryRun, settings: ExecutorSettings) -> str:
    """Return the estimated time with its origin."""
    from hpcosim_experiments.estimate import SAMPLE_S
    from hpcosim_experiments.executors import Local, cores

    wall_s, origin, runs, error = done.estimate
    if wall_s is None:
        return f"unknown; {origin}; the first error: {error}"
    text = f"{_span(wall_s)} with one worker"
    workers = (settings.workers or cores()) if isinstance(settings, Local) else settings.workers
    workers = min(workers or 1, len(done.jobs))
    if workers > 1:
        text += f", {_span(wall_s / workers)} with {workers}"
    short = "" if origin == "stored runs" else f", each simulated for at most {SAMPLE_S:g} s"
    failed = f"; the first error of a sample: {error}" if error else ""
    return f"{text}; from the time per job of {runs} {origin}{short}{failed}"


def _span(seconds: float) -> str:
    from hpcosim_scenarios.running.in_process import span

    return span(seconds) if seconds >= 1.0 else "less than a second"


def print_outcome(done: CarriedOut) -> int:
    """Print the tables and the reports, then the failed runs; return the number of these."""
    from hpcosim_experiments.carry_out import grouped

    for path in done.files:
        if path.parent == done.folder:  # a report links to its figures
            typer.echo(str(path))
    failed = done.failed
    errors = grouped((run, done.results[run.key].error) for run in failed)
    for line in errors[:MOST_FAILURES]:
        typer.echo(f"error: {line}", err=True)
    if failed:
        more = len(errors) - MOST_FAILURES
        not_listed = f"; {more} other errors are in the report" if more > 0 else ""
        total = len(done.plan.runs)
        typer.echo(f"error: {len(failed)} of {total} runs failed{not_listed}", err=True)
    return len(failed)
