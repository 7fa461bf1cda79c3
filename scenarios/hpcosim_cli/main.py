"""The `hpcosim` command. What a subcommand needs is imported when it is called."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcosim_cli.options import (
    RUN_FAILED,
    Json,
    Lenient,
    ScenarioFile,
    Seed,
    Set,
    errors_in_one_line,
    overrides_of,
)
from hpcosim_scenarios.running.formats import Format

if TYPE_CHECKING:
    from hpcosim_protocol import Welcome


app = typer.Typer(
    help="Co-simulation of HPC clusters: a simulator and a scheduler, two processes, one wire.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Transport(StrEnum):
    """What lies between simulator and scheduler."""

    ipc = "ipc"
    tcp = "tcp"
    inproc = "inproc"


class Study(StrEnum):
    """Experiments of a paper; `scenarios/papers/` has a folder for each paper."""

    ineps = "ineps"
    pairing_exp1 = "pairing-exp1"
    pairing_exp2 = "pairing-exp2"
    pairing_exp3 = "pairing-exp3"
    pairing_exp4 = "pairing-exp4"
    node_centric = "node-centric"
    power_timeouts = "power-timeouts"
    power_curricula = "power-curricula"
    power_radar = "power-radar"
    power_sensitivity = "power-sensitivity"
    power_pareto = "power-pareto"
    deep_eas_fig3 = "deep-eas-fig3"
    deep_eas_fig4 = "deep-eas-fig4"
    deep_eas_fig5 = "deep-eas-fig5"
    deep_eas_beta = "deep-eas-beta"
    deep_eas_perfect = "deep-eas-perfect"
    deep_eas_machines = "deep-eas-machines"
    deep_eas_optimum = "deep-eas-optimum"


class Awareness(StrEnum):
    """What a job scheduler makes of nodes that are not on."""

    unaware = "unaware"
    aware = "aware"
    planned = "planned"


Formats = Annotated[
    list[Format] | None, typer.Option("--format", help="Write the results in this one, too.")
]
Over = Annotated[Transport, typer.Option(help="Two processes over ipc or tcp; inproc: one.")]


@app.command()
def run(
    scenario: ScenarioFile,
    scheduler: Annotated[str | None, typer.Option(help="Instead of the scenario's own.")] = None,
    transport: Over = Transport.ipc,
    seed: Seed = None,
    out: Annotated[
        Path | None, typer.Option(help="Results folder; default results/SCENARIO-SCHEDULER.")
    ] = None,
    changes: Set = None,
    lenient: Lenient = False,
    formats: Formats = None,
    as_json: Json = False,
) -> None:
    """Run a scenario, write its results and print its metrics."""
    with errors_in_one_line():
        from hpcosim_cli.report import print_metrics
        from hpcosim_scenarios.running.run import run_scenario

        metrics, folder = run_scenario(
            scenario,
            scheduler=scheduler,
            transport=transport.value,
            out=out,
            overrides=overrides_of(changes, seed, lenient),
            formats=formats or (),
        )
        print_metrics(metrics, as_json=as_json)
        if not as_json:
            typer.echo(f"results: {folder}")


@app.command()
def compare(
    scenario: ScenarioFile,
    schedulers: Annotated[
        str, typer.Option(help="Names, or groups such as all-heuristics, separated by commas.")
    ],
    transport: Over = Transport.inproc,
    seed: Seed = None,
    out: Annotated[Path | None, typer.Option(help="Results, in a folder for each.")] = None,
    changes: Set = None,
    lenient: Lenient = False,
    formats: Formats = None,
    as_json: Json = False,
) -> None:
    """Run a scenario with several schedulers and set their metrics side by side."""
    with errors_in_one_line():
        from hpcosim_cli.report import print_comparison
        from hpcosim_scenarios.running.compare import compare_schedulers

        metrics = compare_schedulers(
            scenario,
            [name.strip() for name in schedulers.split(",") if name.strip()],
            transport=transport.value,
            out=out,
            overrides=overrides_of(changes, seed, lenient),
            formats=formats or (),
        )
        print_comparison(metrics, as_json=as_json)


@app.command()
def oracle(
    scenario: ScenarioFile,
    scheduler: Annotated[str | None, typer.Option(help="Instead of the scenario's own.")] = None,
    out: Annotated[Path | None, typer.Option(help="File for the plan; else none is kept.")] = None,
    seed: Seed = None,
    changes: Set = None,
    lenient: Lenient = False,
    as_json: Json = False,
) -> None:
    """Print the least energy a scenario's schedule must waste; plan the switching that does it."""
    with errors_in_one_line():
        from hpcosim_cli.report import print_plan
        from hpcosim_scenarios.planning.oracle import plan_scenario

        overrides = overrides_of(changes, seed, lenient)
        plan = plan_scenario(scenario, out, scheduler=scheduler, overrides=overrides)
        print_plan(plan, as_json=as_json)
        if out is not None and not as_json:
            typer.echo(f"plan: {out}")


@app.command()
def validate(scenario: ScenarioFile, changes: Set = None, lenient: Lenient = False) -> None:
    """Read a scenario and its workload, and say what is in them."""
    with errors_in_one_line():
        from hpcosim_cli.report import print_summary
        from hpcosim_scenarios.running.run import check

        print_summary(*check(scenario, overrides_of(changes, None, lenient)))


@app.command()
def serve(
    scenarios: Annotated[
        list[Path], typer.Argument(metavar="SCENARIO...", help="Scenarios' YAML files.")
    ],
    bind: Annotated[
        str, typer.Option(help="Where to listen; on other than the loopback, at your own risk.")
    ] = "tcp://127.0.0.1:28080",
    out: Annotated[Path | None, typer.Option(help="Results, in a folder for each session.")] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End after one session, its results in --out itself.")
    ] = False,
    sessions: Annotated[int | None, typer.Option(min=1, help="End after so many sessions.")] = None,
    idle_s: Annotated[
        float, typer.Option(min=0.1, help="Drop a session silent for so long, s.")
    ] = 600.0,
    max_message_bytes: Annotated[int, typer.Option(min=1024)] = 16 * 2**20,
    max_decisions: Annotated[int, typer.Option(min=1, help="In a message.")] = 100_000,
    max_sessions: Annotated[int, typer.Option(min=1, help="Open at a time.")] = 64,
    max_jobs: Annotated[int, typer.Option(min=1, help="In a session.")] = 2_000_000,
    changes: Set = None,
    seed: Seed = None,
    lenient: Lenient = False,
    formats: Formats = None,
) -> None:
    """Serve scenarios to schedulers until told to stop; the log is JSON on standard error."""
    with errors_in_one_line():
        from hpcosim_scenarios.running.run import serve_scenarios
        from hpcosim_server.service.service import Limits

        failures = serve_scenarios(
            scenarios,
            bind,
            out=out,
            sessions=1 if once else sessions,
            folder_per_session=not once,
            limits=Limits(
                message_bytes=max_message_bytes,
                decisions=max_decisions,
                sessions=max_sessions,
                jobs=max_jobs,
                idle_s=idle_s,
            ),
            overrides=overrides_of(changes, seed, lenient),
            formats=formats or (),
        )
    if failures and (once or sessions):
        raise typer.Exit(RUN_FAILED)


@app.command()
def schedule(
    name: Annotated[str, typer.Argument(help="The policy; `hpcosim schedulers` lists them.")],
    model: Annotated[
        Path | None, typer.Option(help="The file of a trained one, as of `pairing`.")
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw a trained one's choices; else the best.")
    ] = False,
    power: Annotated[
        str, typer.Option(metavar="JSON", help="The power manager beside it, as in a scenario.")
    ] = '{"name": "always_on"}',
    power_awareness: Annotated[
        Awareness, typer.Option(help="What it makes of nodes that are not on.")
    ] = Awareness.unaware,
    connect: Annotated[str, typer.Option(help="The server.")] = "tcp://127.0.0.1:28080",
    scenario: Annotated[str, typer.Option(help="Which of the server's; default its first.")] = "",
    seed: Seed = None,
    session: Annotated[
        str, typer.Option(help="One to come back to, by the name shown at its start.")
    ] = "",
    give_up_s: Annotated[
        float, typer.Option(min=0.1, help="After so long without an answer the server is gone, s.")
    ] = 60.0,
    hello_s: Annotated[
        float, typer.Option(min=0.1, help="Likewise, for its first answer, s.")
    ] = 20.0,
) -> None:
    """Schedule one simulation of a server with a policy."""
    with errors_in_one_line():
        from hpcosim_client import Patience
        from hpcosim_client import run as schedule_one
        from hpcosim_client.catalogue.power import read_power, title, with_power
        from hpcosim_client.catalogue.trained import with_model

        name = with_model(name, model, sample=sample)
        patience = Patience(min(5.0, give_up_s / 2), give_up_s, hello_s)
        manager = read_power(power)
        schedule_one(
            with_power(name, manager, power_awareness.value),
            connect,
            name=title(name, manager, power_awareness.value),
            scenario=scenario,
            seed=seed,
            session=session,
            patience=patience,
            welcomed=_show_session,
        )


@app.command()
def schedulers() -> None:
    """List the schedulers by name; the last are the groups of them that `compare` takes."""
    from hpcosim_client import GROUPS, POLICIES
    from hpcosim_client.catalogue.trained import TRAINED

    trained = [f"{name}:MODEL" for name in TRAINED]
    typer.echo("\n".join((*POLICIES, "scripted:FILE", *trained, *GROUPS)))


@app.command()
def ping(
    connect: Annotated[str, typer.Option(help="The server.")] = "tcp://127.0.0.1:28080",
) -> None:
    """Find out whether a server answers: exit 0 if it does, else 1."""
    with errors_in_one_line():
        from hpcosim_client import Connection, Patience

        with Connection(connect, Patience(resend_s=1.0, give_up_s=3.0)) as connection:
            connection.ping()


@app.command()
def conformance(
    client: Annotated[
        str, typer.Option(metavar="COMMAND", help="A scheduler's; {address} stands for ours.")
    ] = "",
    server: Annotated[str, typer.Option(metavar="ADDRESS", help="A server's.")] = "",
    scenario: Annotated[str, typer.Option(help="Which of the server's; default its first.")] = "",
    only: Annotated[
        list[str] | None, typer.Option(help="Just this check; may be repeated.")
    ] = None,
    wait_s: Annotated[
        float, typer.Option(min=0.1, help="Who is silent for so long has failed, s.")
    ] = 20.0,
    late_s: Annotated[
        float, typer.Option(min=0.0, help="By how much an answer comes late to a client, s.")
    ] = 7.0,
    as_json: Json = False,
) -> None:
    """Try any scheduler, or any server, rule by rule: exit 0 if it broke none, else 1."""
    with errors_in_one_line():
        from hpcosim_conformance.kit import try_client, try_server
        from hpcosim_conformance.verdict import conforms, report
        from hpcosim_scenarios.errors import CommandError

        if bool(client) == bool(server):
            raise CommandError("name either a --client or a --server, one at a time")
        names = only or []
        verdicts = (
            try_client(client, names, wait_s=wait_s, late_s=late_s)
            if client
            else try_server(server, names, scenario=scenario, wait_s=wait_s)
        )
        passed = conforms(report(verdicts, as_json=as_json))
    if not passed:
        raise typer.Exit(RUN_FAILED)


@app.command()
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


@app.command()
def reproduce(
    study: Annotated[Study, typer.Argument(help="Whose experiments.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for its tables and figures; default results/STUDY.")
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Train the networks of the study anew; it takes long.")
    ] = False,
) -> None:
    """Run all experiments of a paper, or a part of them; make its tables and figures."""
    with errors_in_one_line():
        from hpcosim_studies import reproduce_study

        folder = out or Path("results") / study.value
        reproduce_study(study.value, folder, train=train)
        typer.echo(f"results: {folder}")


def main() -> None:
    """Run the command."""
    from hpcosim_cli.batsim import SETTINGS, batsim
    from hpcosim_cli.traces import app as traces
    from hpcosim_cli.train import app as train

    app.command(context_settings=SETTINGS)(batsim)
    app.add_typer(traces, name="traces")
    app.add_typer(train, name="train")
    app()


def _show_session(welcome: Welcome) -> None:
    """Tell a person, on a terminal, what to come back to if this scheduler dies."""
    if sys.stderr.isatty():
        sys.stderr.write(f"session {welcome.session}, to come back: --session\n")
