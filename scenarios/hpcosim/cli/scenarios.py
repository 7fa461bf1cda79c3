"""The command `hpcosim scenarios`."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from hpcosim.cli.errors import errors_in_one_line
from hpcosim.cli.options import Json


def scenarios(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Scenario to print as YAML. Default: list all."),
    ] = "",
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also list those of papers, trainings and conformance checks."),
    ] = False,
    as_json: Json = False,
) -> None:
    """List the shipped scenarios, or print one as YAML; with --all also those of papers."""
    with errors_in_one_line():
        from hpcosim_scenarios.errors import ScenariosError
        from hpcosim_scenarios.shipped import EVERYDAY, describe_scenario, shipped_scenarios

        shipped = shipped_scenarios()
        if name in shipped:
            _print_scenario(shipped[name])
            return
        if name:
            near = difflib.get_close_matches(name, shipped, n=1)
            advice = f"did you mean {near[0]}? " if near else ""
            raise ScenariosError(
                f"unknown scenario {name!r}; {advice}`hpcosim scenarios` lists all"
            )
        contents = {each: describe_scenario(path) for each, path in shipped.items()}
        if as_json:
            typer.echo(json.dumps(contents, indent=2))
            return
        rest = {each: text for each, text in contents.items() if each not in EVERYDAY}
        _print_table("scenario", {each: contents[each] for each in EVERYDAY})
        if everything:
            _print_table("of papers, trainings and checks", rest)
        else:
            typer.echo(
                f"`hpcosim scenarios --all` lists {len(rest)} more: of papers and trainings."
            )


def _print_table(title: str, contents: Mapping[str, str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(title, no_wrap=True)
    table.add_column("contents")
    for row in contents.items():
        table.add_row(*row)
    Console().print(table)


def _print_scenario(path: Path) -> None:
    """Print a scenario, and on standard error how to copy the files that it reads."""
    from hpcosim_scenarios.model.file import load_scenario
    from hpcosim_scenarios.model.files import named_files

    typer.echo(path.read_text(encoding="utf-8"), nl=False)
    files = named_files(load_scenario(path), path.parent).values()
    if files:
        paths = shlex.join(dict.fromkeys(map(str, files)))
        typer.echo(f"note: the scenario reads more files; copy them, too: cp {paths} .", err=True)
