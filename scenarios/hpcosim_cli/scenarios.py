"""The command `hpcosim scenarios`."""

from __future__ import annotations

import difflib
import json
from typing import Annotated

import typer

from hpcosim_cli.errors import errors_in_one_line
from hpcosim_cli.options import Json


def scenarios(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Scenario to print as YAML. Default: list all."),
    ] = "",
    as_json: Json = False,
) -> None:
    """List the shipped scenarios, or print one as YAML."""
    with errors_in_one_line():
        from rich import box
        from rich.console import Console
        from rich.table import Table

        from hpcosim_scenarios.errors import ScenariosError
        from hpcosim_scenarios.shipped import describe_scenario, shipped_scenarios

        shipped = shipped_scenarios()
        if name in shipped:
            typer.echo(shipped[name].read_text(encoding="utf-8"), nl=False)
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
        table = Table(box=box.SIMPLE_HEAD)
        table.add_column("name", no_wrap=True)
        table.add_column("contents")
        for row in contents.items():
            table.add_row(*row)
        Console().print(table)
