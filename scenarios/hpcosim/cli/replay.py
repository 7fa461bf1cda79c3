"""The command `hpcosim replay`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcosim.cli.checks import scenario_file, scheduler_name
from hpcosim.cli.errors import errors_in_one_line
from hpcosim.cli.options import Force, Formats, Json


def _named_scenario(value: Path | None) -> Path | None:
    return None if value is None else scenario_file(value)


def replay(
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL", help="Journal of a session.")],
    until: Annotated[
        float | None,
        typer.Option(
            metavar="T",
            min=0.0,
            help="End at this simulated time, in s. Default: the journal's end.",
        ),
    ] = None,
    from_here: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            callback=scheduler_name,
            help="Scheduler that takes over at the end of the replay.",
        ),
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(
            metavar="SCENARIO",
            callback=_named_scenario,
            help="Scenario file. Default: the file that the server had.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for results. Default: none.")] = None,
    force: Force = False,
    formats: Formats = None,
    as_json: Json = False,
) -> None:
    """Run a session again from its journal, without its scheduler, and verify each reply."""
    with errors_in_one_line():
        from hpcosim.cli.formats import formats_of
        from hpcosim.cli.report import print_metrics, print_warning
        from hpcosim_scenarios.running.replayed import replay as run_again

        replayed = run_again(
            journal,
            scenario=scenario,
            until_s=until,
            policy=from_here,
            out=out,
            force=force,
            formats=formats_of(formats),
            warn=print_warning,
        )
        if replayed.fault:
            print_warning(f"{journal}: {replayed.fault}; it is replayed up to there")
        print_metrics(replayed.metrics, replayed.currency, as_json=as_json)
        if not as_json:
            typer.echo(
                f"replayed: {replayed.part}, up to {replayed.replayed_s} s, all with "
                "the recorded replies"
            )
            if out is not None:
                typer.echo(f"results: {out}")
