"""Options and arguments that several commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hpcosim_scenarios.running.transport import Transport
from hpcosim_scenarios.shipped import find_scenario

SERVER = "tcp://127.0.0.1:28080"
"""The address at which a server listens unless told otherwise."""

ScenarioFile = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO",
        parser=find_scenario,
        help="A YAML file, or the name of a shipped scenario, such as demo.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Change a value, as workload.load=1.2."),
]
Seed = Annotated[int | None, typer.Option(min=0, help="Instead of the scenario's own.")]
Scheduler = Annotated[str | None, typer.Option(help="Instead of the scenario's own.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, nothing else.")]
Force = Annotated[
    bool, typer.Option("--force", help="Replace the results in a folder that is not empty.")
]
Lenient = Annotated[
    bool, typer.Option("--lenient", help="Leave out corrupt lines of the workload; count them.")
]
Over = Annotated[Transport, typer.Option(help="Two processes over ipc or tcp; inproc: one.")]
Connect = Annotated[str, typer.Option(help="The server's address.")]
Formats = Annotated[
    list[str] | None,
    typer.Option("--format", help="Write the results in this format, too: batsim."),
]


def overrides_of(changes: list[str] | None, seed: int | None, lenient: bool) -> dict[str, Any]:
    """Return the values that the options of a command change in a scenario.

    Raises:
        ScenarioError: one is not FIELD=VALUE.
    """
    from hpcosim_scenarios.model.overrides import parse

    overrides = parse(changes or [])
    if seed is not None:
        overrides["seed"] = seed
    if lenient:
        overrides["workload.lenient"] = True
    return overrides


def names_of(text: str) -> list[str]:
    """Return the names in a text that separates them by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]
