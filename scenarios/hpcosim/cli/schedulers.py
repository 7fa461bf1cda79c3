"""The command `hpcosim schedulers`."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import Annotated

import typer

NAME_WIDTH = 23


def schedulers(
    everything: Annotated[
        bool, typer.Option("--all", help="Also list those of papers, trained ones and groups.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with the members of groups and all names.")
    ] = False,
) -> None:
    """List the schedulers and the power managers; with --all also those of papers."""
    if as_json:
        sys.stdout.write(json.dumps(_all(), indent=2) + "\n")
        return
    from hpcosim_schedulers.catalogue import summaries

    _print("SCHEDULERS (--scheduler; case does not matter)", summaries.EVERYDAY)
    _print(
        "POWER MANAGERS (scheduler.power)",
        {name: _with_settings(name, text) for name, text in summaries.POWER_MANAGERS.items()},
    )
    if not everything:
        more = len(summaries.papers()) + len(summaries.trained())
        typer.echo(f"`hpcosim schedulers --all` lists {more} more: of papers, trained, and groups.")
        return
    _print("SCHEDULERS OF PAPERS", summaries.papers())
    _print("JOB RULES", summaries.JOB_RULES)
    _print("NODE RULES", summaries.NODE_RULES)
    _print("TRAINED SCHEDULERS", summaries.trained())
    _print("GROUPS (hpcosim compare --schedulers)", summaries.GROUPS)


def _all() -> dict[str, object]:
    from hpcosim_schedulers.catalogue import schedulers, summaries

    return {
        "schedulers": summaries.all_schedulers(),
        "job_rules": dict(summaries.JOB_RULES),
        "node_rules": dict(summaries.NODE_RULES),
        "groups": {
            name: {"summary": text, "members": list(schedulers.GROUPS[name])}
            for name, text in summaries.GROUPS.items()
        },
        "power_managers": {
            name: {"summary": text, "settings": summaries.power_settings(name)}
            for name, text in summaries.POWER_MANAGERS.items()
        },
        "names": schedulers.scheduler_names(),
    }


def _with_settings(name: str, text: str) -> str:
    from hpcosim_schedulers.catalogue.summaries import power_settings

    said = [
        setting if default == "required" else f"{setting}={json.dumps(default)}"
        for setting, default in power_settings(name).items()
    ]
    return f"{text}\nsettings: {', '.join(said)}" if said else text


def _print(title: str, lines: Mapping[str, str]) -> None:
    """Print a table of names and texts, wrapped on a terminal and one line each elsewhere."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    typer.echo(f"{title}\n")
    for name, text in lines.items():
        indent = f"  {name:{NAME_WIDTH}}  "
        for line in text.splitlines():
            rest = " " * len(indent)
            typer.echo(textwrap.fill(line, width, initial_indent=indent, subsequent_indent=rest))
            indent = rest
    typer.echo()
