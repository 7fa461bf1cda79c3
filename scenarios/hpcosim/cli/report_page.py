"""The command `hpcosim report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcosim.cli.checks import output_file, results_folders
from hpcosim.cli.errors import errors_in_one_line


def report(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS...",
            help="Results folders of one to four runs on equal platforms.",
            callback=results_folders,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The page. Default: report.html in the first results folder.",
            callback=output_file,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file in --out that is no report.")
    ] = False,
) -> None:
    """Write a web page that shows a run, or compares two to four, in one file without a network."""
    with errors_in_one_line():
        from hpcosim.cli.report import print_warning
        from hpcosim_scenarios.running.incomplete import why_incomplete
        from hpcosim_view.report import write_report

        for folder in results:
            if reason := why_incomplete(folder):
                print_warning(f"{folder} has incomplete results: {reason}")
        page = out or results[0] / "report.html"
        typer.echo(write_report(results, page, force=force, warn=print_warning))
