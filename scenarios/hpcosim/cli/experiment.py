"""The command `hpcosim experiment`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from hpcosim.cli.checks import experiment_file
from hpcosim.cli.errors import RUN_FAILED, errors_in_one_line
from hpcosim.cli.executors import (
    AddressOption,
    ArraySizeOption,
    ExecutorOption,
    JobsFolderOption,
    MemoryOption,
    PartitionOption,
    TimeOption,
    WorkersOption,
    executor_of,
)
from hpcosim.cli.options import Set, overrides_of


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
    executor: ExecutorOption = "local",
    workers: WorkersOption = None,
    address: AddressOption = None,
    partition: PartitionOption = None,
    time: TimeOption = None,
    memory: MemoryOption = None,
    array_size: ArraySizeOption = None,
    jobs_folder: JobsFolderOption = None,
) -> None:
    """Run the runs of an experiment, and write their results as tables and as a report."""
    with errors_in_one_line():
        from hpcosim.cli.experiment_report import print_dry_run, print_outcome
        from hpcosim.cli.report import print_warning
        from hpcosim_experiments.carry_out import run_experiment
        from hpcosim_experiments.dry_run import dry_run as plan_only

        settings = executor_of(
            executor,
            workers,
            address,
            partition=partition,
            time=time,
            memory=memory,
            array_size=array_size,
            jobs_folder=jobs_folder,
        )
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
