"""The command `hpcosim reproduce`."""

from __future__ import annotations

import difflib
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hpcosim.cli.errors import errors_in_one_line
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
from hpcosim.cli.options import Force


def reproduce(
    study: Annotated[
        str, typer.Argument(metavar="STUDY", help="Study to run. Default: list all studies.")
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for tables and figures. Default: results/STUDY."),
    ] = None,
    force: Force = False,
    executor: ExecutorOption = "local",
    workers: WorkersOption = None,
    address: AddressOption = None,
    partition: PartitionOption = None,
    time: TimeOption = None,
    memory: MemoryOption = None,
    array_size: ArraySizeOption = None,
    jobs_folder: JobsFolderOption = None,
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
        from hpcosim.cli.report import print_warning
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
        folder = out or Path("results") / study
        say = partial(typer.echo, err=True)
        reproduce_study(Request(study, folder, train, settings, force, print_warning, say))
        typer.echo(f"results: {folder}")
