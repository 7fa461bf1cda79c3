"""The command `hpcosim scenarios`."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcosim_cli.errors import errors_in_one_line


def scenarios(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Scenario to print as YAML. Default: list all."),
    ] = "",
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
            raise ScenariosError(
                f"unknown scenario {name!r}; `hpcosim scenarios` lists the shipped scenarios"
            )
        table = Table(box=box.SIMPLE_HEAD)
        table.add_column("name", no_wrap=True)
        table.add_column("contents")
        for each, path in shipped.items():
            table.add_row(each, describe_scenario(path))
        Console().print(table)
