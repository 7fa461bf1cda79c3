"""The `hpcosim` command. What a command needs is imported when it is called."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcosim_cli import traces, train
from hpcosim_cli.batsim import SETTINGS, batsim
from hpcosim_cli.compare import compare
from hpcosim_cli.conformance import conformance
from hpcosim_cli.draw import draw
from hpcosim_cli.oracle import oracle
from hpcosim_cli.ping import ping
from hpcosim_cli.reproduce import reproduce
from hpcosim_cli.run import run
from hpcosim_cli.scenarios import scenarios
from hpcosim_cli.schedule import schedule
from hpcosim_cli.schedulers import schedulers
from hpcosim_cli.serve import serve
from hpcosim_cli.validate import validate

app = typer.Typer(
    help="Co-simulation of HPC clusters: a simulator and a scheduler, two processes, one wire.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from hpcosim_scenarios import __version__

        typer.echo(f"hpcosim {__version__}")
        raise typer.Exit


@app.callback()
def hpcosim(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that go before a command."""


for command in (
    run,
    compare,
    oracle,
    scenarios,
    validate,
    serve,
    schedule,
    schedulers,
    ping,
    conformance,
    draw,
    reproduce,
):
    app.command()(command)
app.command(context_settings=SETTINGS)(batsim)
app.add_typer(traces.app, name="traces")
app.add_typer(train.app, name="train")


def main() -> None:
    """Run the command."""
    app()
