"""The command `hpcosim run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcosim.cli import options
from hpcosim.cli.live import Realtime, Speed, WatchRun
from hpcosim.cli.usage import errors_in_one_line
from hpcosim_scenarios.model import Engine
from hpcosim_scenarios.running import Transport


def run(
    scenario: options.ScenarioFile,
    scheduler: options.Scheduler = None,
    transport: Annotated[
        Transport | None,
        typer.Option(
            help="ipc, tcp: simulator and scheduler in two processes; inproc: in one. The results "
            "are identical. Default: inproc where the compiled engine may simulate, otherwise ipc.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="reference supports everything; compiled is faster, supports a part, and has the "
            "same results; auto takes it where that saves time."
        ),
    ] = "auto",
    seed: options.Seed = None,
    changes: options.Set = None,
    lenient: options.Lenient = False,
    explain: options.Explain = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Results folder. Default: results/SCENARIO-SCHEDULER."),
    ] = None,
    force: options.Force = False,
    in_process: options.InProcess = False,
    journal: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for a journal of the run, for `hpcosim replay`. Needs ipc or tcp.",
        ),
    ] = None,
    formats: options.Formats = None,
    as_json: options.Json = False,
    watch: WatchRun = False,
    speed: Speed = None,
    realtime: Realtime = None,
) -> None:
    """Run a scenario, write its results and print its metrics."""
    with errors_in_one_line():
        from contextlib import nullcontext

        from hpcosim.cli.live import watched_run
        from hpcosim.cli.printing import print_metrics, print_warning
        from hpcosim_scenarios.errors import ScenariosError
        from hpcosim_scenarios.model.file import load_scenario
        from hpcosim_scenarios.running.results import formats_of
        from hpcosim_scenarios.running.run import run_scenario
        from hpcosim_sim.errors import ResultsError

        if speed is not None and not watch:
            raise ScenariosError("--speed needs --watch")
        if realtime is not None and speed is not None:
            raise ScenariosError("expected either --realtime or --speed")
        if journal is not None and transport == "inproc":
            raise ScenariosError("--journal needs --transport ipc or tcp: inproc has no messages")
        if in_process:
            scheduler = options.in_this_process(scheduler or "")
            transport = transport or "inproc"
        overrides = options.overrides_of(changes, seed, lenient, explain=explain)
        if engine != "auto":
            overrides["engine"] = engine
        read = load_scenario(scenario, overrides)
        try:
            shown = watched_run(speed, transport or "ipc", realtime) if watch else nullcontext()
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


def oracle(
    scenario: options.ScenarioFile,
    scheduler: options.Scheduler = None,
    seed: options.Seed = None,
    changes: options.Set = None,
    lenient: options.Lenient = False,
    out: Annotated[
        Path | None,
        typer.Option(
            callback=options.output_file,
            help="Plan file (JSON) for the power manager `oracle`. Default: none.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Plan the node switching that wastes the least energy, and print its energies.

    The schedule is the scheduler's own with every node always on; no job starts later. The plan is
    optimal for that schedule.
    """
    with errors_in_one_line():
        from hpcosim.cli.printing import print_plan
        from hpcosim_scenarios.running.oracle import plan_scenario

        overrides = options.overrides_of(changes, seed, lenient)
        plan = plan_scenario(scenario, out, scheduler=scheduler, overrides=overrides)
        print_plan(plan, as_json=as_json)
        if out is not None and not as_json:
            typer.echo(f"plan: {out}")


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
            callback=options.scheduler_name,
            help="Scheduler that takes over at the end of the replay.",
        ),
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(
            metavar="SCENARIO",
            callback=options.if_given(options.scenario_file),
            help="Scenario file. Default: the file that the server had.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for results. Default: none.")] = None,
    force: options.Force = False,
    formats: options.Formats = None,
    as_json: options.Json = False,
) -> None:
    """Run a session again from its journal, without its scheduler, and verify each reply."""
    with errors_in_one_line():
        from hpcosim.cli.printing import print_metrics, print_warning
        from hpcosim_scenarios.running.replay import replay as run_again
        from hpcosim_scenarios.running.results import formats_of

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
