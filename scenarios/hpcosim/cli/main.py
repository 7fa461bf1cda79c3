"""The `hpcosim` command. Each command imports the packages it needs when it is called."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Collection, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpcosim.cli.usage import EXAMPLES, CommandGroup, help_of

if TYPE_CHECKING:
    app: typer.Typer

HELP = "Simulate HPC clusters with job schedulers and power managers."

STDERR = 2  # the last standard file descriptor

COLLECT_AT = 100_000
"""Number of new containers after which Python looks for cyclic garbage; by default 700.

A simulation makes few cycles and many short-lived lists and tuples. Looking for cycles among those
took 5 % of the CPU of a run in process, and 12 % of a server's. The imports of a run make
50,000, which took 15 ms to look through.
"""

EXIT_STATUS = """Exit status: 0 success, 1 the run failed, the server does not answer or results \
cannot be written, 2 wrong usage or bad input, 128 + N stopped by signal N. An error is one line \
on standard error that begins with `error: `."""

PANELS: Mapping[str, Mapping[str, str]] = {
    "Simulate": {
        "run": "Run a scenario, write its results and print its metrics.",
        "compare": "Compare schedulers, power managers or platforms.",
        "experiment": "Run many runs along axes, with statistics and a report.",
        "oracle": "Plan the node switching that wastes the least energy.",
        "batsim": "Run a scheduler of Batsim's protocol 4.2.1 instead of Batsim.",
        "batsim5": "Run a decision component of Batsim 5 instead of Batsim.",
    },
    "Inspect": {
        "scenarios": "List the shipped scenarios, or print one.",
        "schedulers": "List the schedulers and the power managers.",
        "validate": "Check a scenario, its workload and its scheduler.",
        "show": "Show a run as a picture, as squeue and sinfo, or live.",
        "report": "Write a web page of one to four runs.",
        "export": "Write the results of a run for other tools.",
        "replay": "Run a session again from its journal, and verify it.",
        "traces": "List the job logs of the catalogue, or download one.",
    },
    "Serve and connect": {
        "serve": "Serve scenarios to schedulers until stopped.",
        "schedule": "Schedule one simulation of a server with a policy.",
        "slurm": "Let a scheduler watch or drive a Slurm cluster.",
        "twin": "Follow a Slurm cluster and answer questions about it.",
        "ask": "Ask when jobs of a Slurm cluster start, and how to ask for nodes.",
        "calibrate": "Calibrate forecasts of a Slurm cluster with its accounting.",
        "import": "Import clusters and jobs of workload managers.",
        "ping": "Check that a server answers.",
        "status": "Show what a server does now.",
        "keygen": "Make the keys of a server and of a client.",
        "conformance": "Check a scheduler or a server against the protocol.",
    },
    "Learn and reproduce": {
        "train": "Train a scheduler or a power manager by a recipe.",
        "reproduce": "Run the experiments of a paper.",
        "benchmark": "Run, verify and rank schedulers on fixed instances.",
    },
}
"""The commands in the order of the help text, by panel, with a line about each."""

COMMANDS = {name: panel for panel, commands in PANELS.items() for name in commands}

MODULES: Mapping[str, str] = {
    "import": "imports",
    "oracle": "run",
    "replay": "run",
    "reproduce": "experiment",
    "export": "report",
    "ping": "status",
    "keygen": "status",
    "calibrate": "twin",
    **dict.fromkeys(("scenarios", "schedulers", "validate", "traces"), "catalogue"),
}
"""The module of each command whose name is not that of its module."""

GROUPS = ("benchmark", "import", "show", "slurm", "traces")
"""Commands with commands of their own."""


def _print_version(wanted: bool) -> None:
    if wanted:
        from hpcosim import __version__

        typer.echo(f"hpcosim {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Accept the options that precede a command."""


def command_line(names: Collection[str] = tuple(COMMANDS)) -> typer.Typer:
    """Return the command line `hpcosim` with these commands. Their modules are imported here."""
    whole = typer.Typer(
        cls=CommandGroup,
        help=HELP,
        epilog=EXIT_STATUS,
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    whole.callback()(_options)
    for name in names:
        module, panel = import_module(f"hpcosim.cli.{MODULES.get(name, name)}"), COMMANDS[name]
        short = PANELS[panel][name]
        if name in GROUPS:
            whole.add_typer(module.app, name=name, short_help=short, rich_help_panel=panel)
            continue
        function = getattr(module, name)
        settings: dict[str, Any] | None = getattr(module, "SETTINGS", None)
        text, epilog = help_of(function), EXAMPLES.get(name)
        register = whole.command(
            name,
            help=text,
            short_help=short,
            epilog=epilog,
            context_settings=settings,
            rich_help_panel=panel,
        )
        register(function)
    return whole


def __getattr__(name: str) -> object:
    """Make `app`, the command line with all commands, when it is first used."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    whole = globals()["app"] = command_line()
    return whole


def main() -> None:
    """Run the command."""
    gc.set_threshold(COLLECT_AT)
    atexit.register(gc.freeze)  # so that the interpreter looks for no cycles when it ends: 20 ms
    _open_standard_streams()
    # The threads of NumPy's linear algebra, which nothing here uses, would forbid forks.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.argv[1:2] == ["forecast"]:
        from hpcosim.cli.ask import words_of_forecast

        sys.argv[1:] = words_of_forecast(sys.argv[2:])
    first = sys.argv[1:2]
    command_line(first if first and first[0] in COMMANDS else tuple(COMMANDS))()


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
