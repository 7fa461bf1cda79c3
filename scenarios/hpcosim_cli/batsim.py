"""The command `hpcosim batsim`: a scheduler of Batsim's, on our simulator; options are Batsim's."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from hpcosim_cli.errors import errors_in_one_line
from hpcosim_scenarios.errors import ScenariosError

Verbosity = Literal["quiet", "network-only", "information", "debug"]
"""How much is written to standard error."""

SPOKEN = "v4.2.1 (the protocol; hpcosim speaks it)"

# What is not known is refused below, by name.
SETTINGS: dict[str, bool] = {"allow_extra_args": True, "ignore_unknown_options": True}

# Options of Batsim 4.2.1 that ask for what is not here.
REFUSED: Mapping[str, str] = {
    "-W": "workflows are not simulated",
    "--workflow": "workflows are not simulated",
    "--WS": "workflows are not simulated",
    "--workflow-start": "workflows are not simulated",
    "--workflow-jobs-limit": "workflows are not simulated",
    "--ignore-beyond-last-workflow": "workflows are not simulated",
    "--enable-redis": "jobs and profiles are not told through Redis",
    "--redis-hostname": "jobs and profiles are not told through Redis",
    "--redis-port": "jobs and profiles are not told through Redis",
    "--redis-prefix": "jobs and profiles are not told through Redis",
    "--no-sched": "there is no run without a scheduler",
    "--sg-cfg": "there is no SimGrid inside",
    "--sg-log": "there is no SimGrid inside",
    "--simgrid-version": "there is no SimGrid inside",
}


def batsim(
    context: typer.Context,
    platform: Annotated[
        Path | None, typer.Option("--platform", "-p", help="SimGrid's platform, XML.")
    ] = None,
    workloads: Annotated[
        list[Path] | None, typer.Option("--workload", "-w", help="Jobs, JSON; there may be many.")
    ] = None,
    socket: Annotated[
        str, typer.Option("--socket-endpoint", "-s", help="Where the scheduler listens.")
    ] = "tcp://localhost:28000",
    export: Annotated[
        Path, typer.Option("--export", "-e", help="How the names of the results begin.")
    ] = Path("out"),
    energy: Annotated[
        bool, typer.Option("--energy", "-E", help="Hosts draw power, and may be switched.")
    ] = False,
    mmax: Annotated[int, typer.Option(min=0, help="Take so many hosts only; 0: all.")] = 0,
    mmax_workload: Annotated[
        bool, typer.Option("--mmax-workload", help="Take as many as the workloads' nb_res.")
    ] = False,
    master: Annotated[
        str, typer.Option("--master-host", "-m", help="The host no job runs on.")
    ] = "master_host",
    roles: Annotated[
        list[str] | None,
        typer.Option("--add-role-to-hosts", "-r", metavar="HOST,...:ROLE", help="As it says."),
    ] = None,
    events: Annotated[
        list[Path] | None, typer.Option("--events", help="External events, a JSON object a line.")
    ] = None,
    forward_unknown_events: Annotated[
        bool, typer.Option("--forward-unknown-events", help="Tell of events of any type.")
    ] = False,
    forward_profiles: Annotated[
        bool,
        typer.Option("--forward-profiles-on-submission", help="Tell of jobs with their profile."),
    ] = False,
    dynamic_jobs: Annotated[
        bool, typer.Option("--enable-dynamic-jobs", help="The scheduler may submit jobs.")
    ] = False,
    acknowledge_dynamic_jobs: Annotated[
        bool, typer.Option("--acknowledge-dynamic-jobs", help="It is told of these, too.")
    ] = False,
    profile_reuse: Annotated[
        bool, typer.Option("--enable-profile-reuse", help="Profiles are always kept here.")
    ] = False,
    compute_sharing: Annotated[
        bool, typer.Option("--enable-compute-sharing", help="Hosts may run several delay jobs.")
    ] = False,
    disable_storage_sharing: Annotated[
        bool,
        typer.Option("--disable-storage-sharing", help="Tell the scheduler so; no effect here."),
    ] = False,
    sched_cfg: Annotated[str, typer.Option(help="A text for the scheduler.")] = "",
    sched_cfg_file: Annotated[
        Path | None, typer.Option(help="A file with a text for the scheduler.")
    ] = None,
    no_machine_states: Annotated[
        bool, typer.Option("--disable-machine-state-tracing", help="Leave out that file.")
    ] = False,
    no_trace: Annotated[
        bool, typer.Option("--disable-schedule-tracing", help="No Pajé trace; there never is one.")
    ] = False,
    verbosity: Annotated[
        Verbosity,
        typer.Option(
            "--verbosity", "-v", help="The first two: nothing but errors; the others alike."
        ),
    ] = "information",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="As -v quiet.")] = False,
    dump: Annotated[
        bool, typer.Option("--dump-execution-context", help="Print it as JSON, run nothing.")
    ] = False,
    wall_times: Annotated[
        bool, typer.Option("--wall-times", help="Write wall seconds; no two runs are then alike.")
    ] = False,
    install: Annotated[
        Path | None,
        typer.Option(help="Write an executable `batsim` into this folder that is this command."),
    ] = None,
    version: Annotated[bool, typer.Option("--version", help="Print it, run nothing.")] = False,
    hello_timeout_s: Annotated[
        float, typer.Option(min=0.1, help="Timeout for the scheduler's connection, s.")
    ] = 60.0,
    timeout_s: Annotated[
        float, typer.Option(min=0.1, help="Timeout for each reply of the scheduler, s.")
    ] = 600.0,
) -> None:
    """Run a scheduler that speaks Batsim's protocol, version 4.2.1 in JSON, on our simulator."""
    with errors_in_one_line():
        _refuse(context.args)
        from hpcosim_batsim.bridge.conversation import Patience
        from hpcosim_batsim.bridge.opening import Options
        from hpcosim_batsim.install import install_as_batsim
        from hpcosim_batsim.run import Inputs, Outputs, dump_context, run_batsim

        if version:
            typer.echo(SPOKEN)
            return
        if dump:
            typer.echo(dump_context(socket, export))
            return
        if install is not None:
            typer.echo(install_as_batsim(install))
            return
        if platform is None:
            raise ScenariosError("a platform is needed (-p)")
        if not workloads and not dynamic_jobs:
            raise ScenariosError("a workload is needed (-w), or --enable-dynamic-jobs")
        silent = quiet or verbosity in ("quiet", "network-only")
        run_batsim(
            Inputs(
                platform=platform,
                workloads=workloads or (),
                events=None if events is None else tuple(events),
                master=master,
                roles=_roles(roles or ()),
                mmax=mmax,
                mmax_workload=mmax_workload,
            ),
            Options(
                energy=energy,
                compute_sharing=compute_sharing,
                storage_sharing=not disable_storage_sharing,
                forward_profiles=forward_profiles,
                dynamic_jobs=dynamic_jobs,
                acknowledge_dynamic_jobs=acknowledge_dynamic_jobs,
                profile_reuse=profile_reuse,
                forward_unknown_events=forward_unknown_events,
                sched_config=_config(sched_cfg, sched_cfg_file),
            ),
            socket,
            Outputs(prefix=export, machine_states=not no_machine_states, wall_times=wall_times),
            Patience(hello_timeout_s, timeout_s),
            say=_ignore if silent else _say,
        )


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command(context_settings=SETTINGS)(batsim)


def main() -> None:
    """Run the command by itself, as an executable called `batsim` does."""
    app()


def _refuse(rest: Sequence[str]) -> None:
    """Say of an option that is not known why, or that there is none."""
    for option in rest:
        name = option.partition("=")[0]
        if name in REFUSED:
            raise ScenariosError(f"{name} is Batsim's, but not supported: {REFUSED[name]}")
        if name.startswith("-"):
            raise ScenariosError(f"there is no option {name}; --help lists all")
        raise ScenariosError(f"{option!r} belongs to no option")


def _roles(texts: Sequence[str]) -> dict[str, str]:
    roles: dict[str, str] = {}
    for text in texts:
        hosts, separator, role = text.partition(":")
        if not separator or not hosts or not role:
            raise ScenariosError(f"{text!r} is no role of hosts, such as host1,host2:storage")
        roles.update(dict.fromkeys(hosts.split(","), role))
    return roles


def _config(text: str, file: Path | None) -> str:
    if file is None:
        return text
    if text:
        raise ScenariosError("--sched-cfg and --sched-cfg-file can't both be given")
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenariosError(f"{file} can't be read: {error}") from None


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _ignore(_: str) -> None:
    """Say nothing."""
