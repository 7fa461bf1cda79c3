"""The `hpcosim` command. Each command imports the packages it needs when it is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from hpcosim_cli import imports, traces, train
from hpcosim_cli.batsim import SETTINGS, batsim
from hpcosim_cli.compare import compare
from hpcosim_cli.conformance import conformance
from hpcosim_cli.draw import draw
from hpcosim_cli.examples import EXAMPLES
from hpcosim_cli.experiment import experiment
from hpcosim_cli.export import export
from hpcosim_cli.keygen import keygen
from hpcosim_cli.oracle import oracle
from hpcosim_cli.ping import ping
from hpcosim_cli.replay import replay
from hpcosim_cli.report_page import report
from hpcosim_cli.reproduce import reproduce
from hpcosim_cli.run import run
from hpcosim_cli.scenarios import scenarios
from hpcosim_cli.schedule import schedule
from hpcosim_cli.schedulers import schedulers
from hpcosim_cli.serve import serve
from hpcosim_cli.sinfo import sinfo
from hpcosim_cli.squeue import squeue
from hpcosim_cli.top import top
from hpcosim_cli.usage import CommandGroup, help_of
from hpcosim_cli.validate import validate

HELP = """Simulate HPC clusters with job schedulers and power managers.

A scenario describes nodes, their power, and jobs. A simulator plays it, and a scheduler decides. \
Both run in one process, or in two that exchange messages over ZeroMQ."""

STDERR = 2  # the last standard file descriptor

EXIT_STATUS = """Exit status:

- 0: success
- 1: the run failed, the server does not answer, or results cannot be written
- 2: wrong usage or bad input
- 128 + N: stopped by signal N

An error is one line on standard error that begins with `error: `."""

SIMULATE = "Simulate"
CONNECT = "Serve and connect"
INSPECT = "Inspect"
LEARN = "Learn and reproduce"
BATSIM = "Batsim"

PANELS: Mapping[str, tuple[Callable[..., Any], ...]] = {
    SIMULATE: (run, compare, experiment, oracle),
    CONNECT: (serve, schedule, ping, keygen, conformance),
    INSPECT: (scenarios, schedulers, validate, draw, report, squeue, sinfo, top, export, replay),
}
"""The commands of each panel of the help text, in their order there."""

app = typer.Typer(
    cls=CommandGroup,
    help=HELP,
    epilog=EXIT_STATUS,
    context_settings={"help_option_names": ["-h", "--help"]},
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
    """Accept the options that precede a command."""


for panel, commands in PANELS.items():
    for command in commands:
        name = command.__name__
        text, epilog = help_of(command), EXAMPLES.get(name)
        app.command(name, help=text, epilog=epilog, rich_help_panel=panel)(command)
app.add_typer(traces.app, name="traces", rich_help_panel=INSPECT)
app.add_typer(imports.app, name="import", rich_help_panel=CONNECT)
app.add_typer(train.app, name="train", rich_help_panel=LEARN)
app.command(rich_help_panel=LEARN, epilog=EXAMPLES["reproduce"])(reproduce)
app.command(context_settings=SETTINGS, rich_help_panel=BATSIM)(batsim)


def main() -> None:
    """Run the command."""
    _open_standard_streams()
    app()


def _open_standard_streams() -> None:
    """Open the null device in place of standard streams that the caller closed, as by `2>&-`.

    Otherwise the next socket or file would get the number of a standard stream.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(opened, True)
    os.close(opened)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8")  # noqa: SIM115
