"""Tables of waits by user, account, partition and QOS."""

from __future__ import annotations

from collections.abc import Mapping

import typer
from rich.markup import escape
from rich.table import Table

from hpcosim.cli.report import number, print_table
from hpcosim_scenarios.running.groups import GROUPED_BY, GroupedBy, Groups

MOST_ROWS = 20
"""Groups of a table; JSON has all."""


def grouped_by(text: str) -> list[GroupedBy]:
    """Return the kinds of groups in a comma-separated list.

    Raises:
        typer.BadParameter: a kind is unknown.
    """
    found: list[GroupedBy] = []
    for name in (part.strip() for part in text.split(",") if part.strip()):
        kind = next((each for each in GROUPED_BY if each == name), None)
        if kind is None:
            known = ", ".join(GROUPED_BY)
            raise typer.BadParameter(f"--by: expected names of {known}, got {name!r:.60}")
        found.append(kind)
    return found


def print_groups(groups: Mapping[str, Groups]) -> None:
    """Print a table of mean waits for each kind of groups: a row per group, a column per policy."""
    first = next(iter(groups.values()))
    for kind in first:
        names = list(dict.fromkeys(name for each in groups.values() for name in each[kind]))
        print_table(_table(kind, names[:MOST_ROWS], groups))
        if len(names) > MOST_ROWS:
            rest = len(names) - MOST_ROWS
            typer.echo(f"{rest} more with fewer core-hours; --json prints all")


def _table(kind: str, names: list[str], groups: Mapping[str, Groups]) -> Table:
    table = Table(kind, title=f"Mean wait by {kind}, s", title_justify="left")
    table.add_column("jobs", justify="right")
    table.add_column("core-hours", justify="right")
    for policy in groups:
        table.add_column(escape(policy), justify="right", no_wrap=True)
    for name in names:
        of_policies = [each[kind].get(name) for each in groups.values()]
        one = next(group for group in of_policies if group is not None)
        waits = ("" if each is None else number(each["mean_wait_s"]) for each in of_policies)
        shown = "".join(letter if letter.isprintable() else "?" for letter in name[:60])
        table.add_row(escape(shown), f"{one['jobs']:,}", number(one["core_hours"]), *waits)
    return table
