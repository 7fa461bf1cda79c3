"""The command `hpcosim traces`: lists the job logs of the catalogue and downloads them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hpcosim.cli.errors import errors_in_one_line

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from hpcosim_workloads.logs.catalogue import KnownTrace

# The archive's conditions of use.
REQUEST = """\
If you publish results from a log, name the Parallel Workloads Archive ({archive}) as its source, \
acknowledge the log's provider, and cite D. G. Feitelson, D. Tsafrir, D. Krakov, "Experience with \
using the Parallel Workloads Archive", J. Parallel Distrib. Comput. 74(10), 2014. \
The SDSC logs are for non-profit use, with their header kept."""

app = typer.Typer(help="List the job logs of the catalogue, or download one.")


@app.callback(invoke_without_command=True)
def show(context: typer.Context) -> None:
    """List the job logs of the catalogue and where this machine has a copy."""
    if context.invoked_subcommand is not None:
        return
    from rich.console import Console

    from hpcosim_workloads.logs.catalogue import (
        ARCHIVE,
        TRACES_VARIABLE,
        cache_folder,
        user_folder,
    )

    # A fixed width in a pipe, so that names are not truncated.
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(_table())
    typer.echo(f"${TRACES_VARIABLE}: {user_folder() or 'not set'}")
    typer.echo(f"cache: {cache_folder()}")
    console.print(REQUEST.format(archive=ARCHIVE), style="dim", markup=False, highlight=False)


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="Name of the log, as `hpcosim traces` lists it.")],
    base_url: Annotated[
        str | None, typer.Option(help="Address of a mirror with the folders of the archive.")
    ] = None,
) -> None:
    """Download a job log into the user's cache and verify its checksum."""
    from hpcosim_workloads.logs.catalogue import ARCHIVE, known_trace, locate

    with errors_in_one_line():
        trace = known_trace(name)
        here = locate(trace)
        if here is not None:
            typer.echo(f"{name} is on this machine: {here} (remove it to download it again)")
            return
        path = _download_with_bar(trace, base_url or ARCHIVE)
        request = REQUEST.format(archive=ARCHIVE)
        typer.echo(f"{name} is on this machine: {path}\nProvider: {trace.provider}. {request}")


def _table() -> Table:
    """Return a table with a row for each log."""
    from rich.table import Table

    from hpcosim_workloads.logs.catalogue import KNOWN

    table = Table(title="Job logs")
    table.add_column("name", no_wrap=True)
    for heading in ("jobs", "processors", "days"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("provider")
    table.add_column("on this machine", no_wrap=True)
    for trace in KNOWN.values():
        table.add_row(
            trace.name,
            f"{trace.jobs:,}",
            f"{trace.processors:,}",
            f"{trace.span_days:.1f}",
            trace.provider,
            _place(trace),
        )
    return table


def _place(trace: KnownTrace) -> str:
    """Return the folder with a copy of a log, in short; "no": there is none."""
    from hpcosim_workloads.logs.catalogue import TRACES_VARIABLE, locate, user_folder

    path = locate(trace)
    if path is None:
        return "no"
    return f"${TRACES_VARIABLE}" if path.parent == user_folder() else "cache"


def _download_with_bar(trace: KnownTrace, base_url: str) -> Path:
    """Download a log into the cache, with a progress bar if standard error is a terminal."""
    from rich import progress
    from rich.console import Console

    from hpcosim_workloads.logs.catalogue import cache_folder
    from hpcosim_workloads.logs.download import download

    console = Console(stderr=True)
    bar = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
        console=console,
        transient=True,  # so that only the error message remains
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(trace.name, total=None)
        return download(
            trace,
            cache_folder(),
            base_url=base_url,
            report=lambda received, total: bar.update(task, completed=received, total=total),
        )
