"""The command `hpcosim run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcosim.cli.errors import errors_in_one_line
from hpcosim.cli.live import Realtime, Speed, WatchRun
from hpcosim.cli.options import (
    Explain,
    Force,
    Formats,
    Json,
    Lenient,
    ScenarioFile,
    Scheduler,
    Seed,
    Set,
    TransportOption,
    overrides_of,
)


def run(
    scenario: ScenarioFile,
    scheduler: Scheduler = None,
    transport: TransportOption = "ipc",
    seed: Seed = None,
    changes: Set = None,
    lenient: Lenient = False,
    explain: Explain = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Results folder. Default: results/SCENARIO-SCHEDULER."),
    ] = None,
    force: Force = False,
    journal: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for a journal of the run, for `hpcosim replay`. Needs ipc or tcp.",
        ),
    ] = None,
    formats: Formats = None,
    as_json: Json = False,
    watch: WatchRun = False,
    speed: Speed = None,
    realtime: Realtime = None,
) -> None:
    """Run a scenario, write its results and print its metrics."""
    with errors_in_one_line():
        from contextlib import nullcontext

        from hpcosim.cli.formats import formats_of
        from hpcosim.cli.live import watched_run
        from hpcosim.cli.report import print_metrics, print_warning
        from hpcosim_scenarios.errors import ScenariosError
        from hpcosim_scenarios.model.file import load_scenario
        from hpcosim_scenarios.running.run import run_scenario
        from hpcosim_sim.errors import ResultsError

        if speed is not None and not watch:
            raise ScenariosError("--speed needs --watch")
        if realtime is not None and speed is not None:
            raise ScenariosError("expected either --realtime or --speed")
        if journal is not None and transport == "inproc":
            raise ScenariosError("--journal needs --transport ipc or tcp: inproc has no messages")
        overrides = overrides_of(changes, seed, lenient, explain=explain)
        read = load_scenario(scenario, overrides)
        try:
            shown = watched_run(speed, transport, realtime) if watch else nullcontext()
            with shown as watched:
                metrics, folder = run_scenario(
                    scenario,
                    scheduler=scheduler,
                    transport=transport,
                    out=out,
                    force=force,
                    overrides=overrides,
                    formats=formats_of(formats),
                    warn=print_warning,
                    watched=watched,
                    realtime=realtime,
                    journal=journal,
                    scenario=read,
                )
        except ResultsError as error:
            if error.metrics is not None:
                print_metrics(error.metrics, read.currency, as_json=as_json)
            raise
        print_metrics(metrics, read.currency, as_json=as_json)
        if not as_json:
            typer.echo(f"results: {folder}")
