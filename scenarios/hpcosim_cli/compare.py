"""The command `hpcosim compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcosim_cli.errors import errors_in_one_line
from hpcosim_cli.options import (
    Force,
    Formats,
    Json,
    Lenient,
    ScenarioFile,
    Seed,
    Set,
    TransportOption,
    names_of,
    overrides_of,
)


def compare(
    scenario: ScenarioFile,
    schedulers: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Comma-separated schedulers or groups; `hpcosim schedulers` lists them.",
        ),
    ],
    transport: TransportOption = "inproc",
    seed: Seed = None,
    changes: Set = None,
    lenient: Lenient = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for results, with a subfolder per scheduler. Default: none."),
    ] = None,
    force: Force = False,
    formats: Formats = None,
    as_json: Json = False,
) -> None:
    """Run a scenario under several schedulers and print their metrics side by side."""
    with errors_in_one_line():
        from hpcosim_cli.formats import formats_of
        from hpcosim_cli.report import Metrics, print_comparison, print_warning
        from hpcosim_scenarios.running.compare import compare_schedulers

        metrics: dict[str, Metrics] = {}
        try:
            compare_schedulers(
                scenario,
                names_of(schedulers),
                transport=transport,
                out=out,
                force=force,
                overrides=overrides_of(changes, seed, lenient),
                formats=formats_of(formats),
                warn=print_warning,
                on_result=metrics.__setitem__,
            )
        finally:  # a run that fails must not cost the metrics of the others
            if metrics:
                print_comparison(metrics, as_json=as_json)
