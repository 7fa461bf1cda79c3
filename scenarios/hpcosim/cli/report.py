"""The commands `hpcosim report` and `hpcosim export`: a run as a web page, or as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcosim.cli.options import ResultsFolder, if_given, output_file, results_folder
from hpcosim.cli.usage import errors_in_one_line


def report(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS...",
            help="Results folders of one to four runs on equal platforms.",
            callback=if_given(results_folder),
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
        from hpcosim.cli.printing import print_warning
        from hpcosim_scenarios.running.results import why_incomplete
        from hpcosim_view.report import write_report

        for folder in results:
            if reason := why_incomplete(folder):
                print_warning(f"{folder} has incomplete results: {reason}")
        page = out or results[0] / "report.html"
        typer.echo(write_report(results, page, force=force, warn=print_warning))


def export(
    results: ResultsFolder,
    perfetto: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Trace for the viewer at ui.perfetto.dev."),
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Typed tables of jobs, nodes, power and explanations."),
    ] = None,
    swf: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The schedule as a job log, for other simulators."),
    ] = None,
    batsim: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Batsim's files, such as for Evalys, of a run with `--format batsim`.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
) -> None:
    """Write the results of a run for other tools."""
    with errors_in_one_line():
        from hpcosim.cli.printing import print_warning
        from hpcosim_scenarios.running.results import why_incomplete
        from hpcosim_view.errors import ExportError
        from hpcosim_view.export.outputs import Outputs, export_run

        outputs = Outputs(perfetto, parquet, swf, batsim)
        if not any(outputs):
            raise ExportError("nothing to write; expected --perfetto, --parquet, --swf or --batsim")
        if reason := why_incomplete(results):
            print_warning(f"{results} has incomplete results: {reason}")
        for path in export_run(results, outputs, force=force):
            typer.echo(path)
