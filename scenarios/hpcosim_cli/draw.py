"""The command `hpcosim draw`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcosim_cli.errors import errors_in_one_line


def draw(
    results: Annotated[Path, typer.Argument(help="A results folder.")],
    out: Annotated[
        Path | None, typer.Option(help="Path without ending; default RESULTS/schedule.")
    ] = None,
) -> None:
    """Draw the schedule over the power over the queue, as PNG and SVG."""
    with errors_in_one_line():
        from hpcosim_scenarios.figures.schedule import draw_schedule

        for path in draw_schedule(results, out or results / "schedule"):
            typer.echo(path)
