"""The command `hpcosim show draw`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcosim.cli.checks import output_file, results_folder
from hpcosim.cli.errors import errors_in_one_line


def draw(
    results: Annotated[
        Path,
        typer.Argument(metavar="RESULTS", help="Results folder of a run.", callback=results_folder),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Path of the images without extension. Default: RESULTS/schedule.",
            callback=output_file,
        ),
    ] = None,
) -> None:
    """Draw the schedule (Gantt chart), power and queue length of a run, as PNG and SVG."""
    with errors_in_one_line():
        from hpcosim.cli.report import print_warning
        from hpcosim_scenarios.running.incomplete import why_incomplete
        from hpcosim_view.figures.schedule import draw_schedule

        if reason := why_incomplete(results):
            print_warning(f"{results} has incomplete results: {reason}")
        for path in draw_schedule(results, out or results / "schedule"):
            typer.echo(path)
