"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hpcosim.cli.checks import (
    EXAMPLE,
    listening_address,
    scenario_file,
    scheduler_name,
    server_address,
)
from hpcosim_scenarios.running.transport import Transport

SERVER = EXAMPLE
"""The default address of a server."""

ScenarioFile = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO",
        help="Scenario file (YAML), or the name of a shipped scenario, such as demo.",
        callback=scenario_file,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Replace a value of the scenario by a YAML value, such as workload.load=1.2. "
        "Repeatable.",
    ),
]
Seed = Annotated[int | None, typer.Option(min=0, help="Random seed. Default: the scenario's seed.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        callback=scheduler_name,
        help="Scheduler; `hpcosim schedulers` lists them. Default: the scenario's scheduler.",
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Replace the results in --out. Other files in it are kept."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Lenient = Annotated[
    bool, typer.Option("--lenient", help="Skip corrupt lines of the job log and count them.")
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain", help="Record why jobs wait, as the scheduler says, in explanations.csv."
    ),
]
TransportOption = Annotated[
    Transport,
    typer.Option(
        help="ipc, tcp: simulator and scheduler in two processes; inproc: in one. "
        "The results are identical."
    ),
]
Connect = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Address of the server.", callback=server_address)
]
Bind = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        callback=listening_address,
        help="Address to listen at; a public one needs --keys.",
    ),
]
ServerKeys = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        metavar="DIR",
        help="Folder of keys of `hpcosim keygen`: only their clients can connect.",
    ),
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="Listen at a public address without keys."),
]
Keys = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="Folder of this client's keys, as `hpcosim keygen` makes it, or file of its secret "
        "key. Default: the server has no keys.",
    ),
]
ServerKey = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Public key of the server. Default: server.key beside the secret key."
    ),
]
Formats = Annotated[
    list[str] | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Also write the results in this format: batsim. Repeatable.",
    ),
]


def overrides_of(
    changes: list[str] | None, seed: int | None, lenient: bool, *, explain: bool = False
) -> dict[str, Any]:
    """Return the values of a scenario that the options of a command replace, by dotted path.

    Args:
        changes: the values of `--set`.
        seed: the value of `--seed`; None: not given.
        lenient: whether `--lenient` is given.
        explain: whether `--explain` is given.

    Raises:
        ScenarioError: a change is not of the form PATH=VALUE.
    """
    from hpcosim_scenarios.model.overrides import parse

    overrides = parse(changes or [])
    if seed is not None:
        overrides["seed"] = seed
    if lenient:
        overrides["workload.lenient"] = True
    if explain:
        overrides["scheduler.explain"] = True
    return overrides


def workload_override(path: Path | None) -> dict[str, Any]:
    """Return the override of a scenario's workload by a file of jobs; None: none.

    Raises:
        typer.BadParameter: there is no such file.
    """
    if path is None:
        return {}
    if not path.is_file():
        raise typer.BadParameter(f"--workload: {path}: no such file")
    kind = "swf" if ".swf" in path.suffixes else "json"
    return {"workload": {kind: str(path.resolve())}}


def names_of(text: str) -> list[str]:
    """Return the names in a comma-separated list.

    Raises:
        typer.BadParameter: the list has brackets, as in YAML.
    """
    if text.strip()[:1] in ("[", "("):
        plain = ",".join(part.strip() for part in text.strip(" []()").split(","))
        raise typer.BadParameter(
            f"expected names separated by commas, such as {plain}, got {text!r}"
        )
    return [name.strip() for name in text.split(",") if name.strip()]
