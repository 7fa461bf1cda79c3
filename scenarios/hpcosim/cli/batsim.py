"""The command `hpcosim batsim`: runs a Batsim scheduler; its options are those of Batsim 4.2.1."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from hpcosim.cli.usage import convert_plainly, errors_in_one_line
from hpcosim_scenarios.errors import ScenariosError

Verbosity = Literal["quiet", "network-only", "information", "debug"]

VERSION = "v4.2.1 (protocol version; implemented by hpcosim)"
SIMGRID_VERSION = "3.32.0 (implemented by hpcosim)"
"""Version of SimGrid whose models and platform files are implemented."""

# `_check_rest` reports unknown options, to name those that only Batsim supports.
SETTINGS: dict[str, bool] = {"allow_extra_args": True, "ignore_unknown_options": True}

# Options of Batsim 4.2.1 that are not supported, and why.
UNSUPPORTED: Mapping[str, str] = {
    "-W": "hpcosim does not simulate workflows",
    "--workflow": "hpcosim does not simulate workflows",
    "--WS": "hpcosim does not simulate workflows",
    "--workflow-start": "hpcosim does not simulate workflows",
    "--workflow-jobs-limit": "hpcosim does not simulate workflows",
    "--ignore-beyond-last-workflow": "hpcosim does not simulate workflows",
    "--enable-redis": "jobs and profiles are sent in messages, not through Redis",
    "--redis-hostname": "jobs and profiles are sent in messages, not through Redis",
    "--redis-port": "jobs and profiles are sent in messages, not through Redis",
    "--redis-prefix": "jobs and profiles are sent in messages, not through Redis",
}

# Options of Batsim 4 and 5.
PlatformFile = Annotated[
    Path | None, typer.Option("--platform", "-p", help="SimGrid platform file (XML).")
]
WorkloadFiles = Annotated[
    list[Path] | None,
    typer.Option("--workload", "-w", help="Workload file (JSON); repeatable."),
]
MasterHost = Annotated[
    str, typer.Option("--master-host", "-m", help="Name of the master host; it runs no jobs.")
]
MaxHosts = Annotated[int, typer.Option(min=0, help="Maximum number of compute hosts; 0: all.")]
MaxHostsOfWorkload = Annotated[
    bool,
    typer.Option("--mmax-workload", help="Use at most the largest nb_res of the workloads."),
]
SimGridConfig = Annotated[
    list[str] | None,
    typer.Option("--sg-cfg", help="No effect: hpcosim does not use SimGrid; repeatable."),
]
SimGridLog = Annotated[
    list[str] | None,
    typer.Option("--sg-log", help="No effect: hpcosim does not use SimGrid; repeatable."),
]
SimGridVersion = Annotated[
    bool,
    typer.Option(
        "--simgrid-version",
        help="Print the version of SimGrid whose models are implemented, and exit.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Same as -v quiet.")]
DumpContext = Annotated[
    bool,
    typer.Option("--dump-execution-context", help="Print the settings as JSON and exit."),
]


def batsim(
    context: typer.Context,
    platform: PlatformFile = None,
    workloads: WorkloadFiles = None,
    socket: Annotated[
        str,
        typer.Option(
            "--socket-endpoint",
            "-s",
            help="Address on which the scheduler listens: tcp:// or ipc://.",
        ),
    ] = "tcp://localhost:28000",
    export: Annotated[
        Path, typer.Option("--export", "-e", help="Path and start of the names of output files.")
    ] = Path("out"),
    energy: Annotated[
        bool,
        typer.Option("--energy", "-E", help="Simulate power and energy; allow pstate changes."),
    ] = False,
    mmax: MaxHosts = 0,
    mmax_workload: MaxHostsOfWorkload = False,
    master: MasterHost = "master_host",
    roles: Annotated[
        list[str] | None,
        typer.Option(
            "--add-role-to-hosts",
            "-r",
            metavar="HOST,...:ROLE",
            help="Give hosts a role: compute_node, master or storage; repeatable.",
        ),
    ] = None,
    events: Annotated[
        list[Path] | None,
        typer.Option("--events", help="File of external events (JSON lines); repeatable."),
    ] = None,
    forward_unknown_events: Annotated[
        bool,
        typer.Option(
            "--forward-unknown-events", help="Send external events of unknown types, too."
        ),
    ] = False,
    forward_profiles: Annotated[
        bool,
        typer.Option("--forward-profiles-on-submission", help="Send the profile in JOB_SUBMITTED."),
    ] = False,
    dynamic_jobs: Annotated[
        bool,
        typer.Option("--enable-dynamic-jobs", help="Let the scheduler register jobs and profiles."),
    ] = False,
    acknowledge_dynamic_jobs: Annotated[
        bool,
        typer.Option(
            "--acknowledge-dynamic-jobs", help="Send JOB_SUBMITTED of registered jobs, too."
        ),
    ] = False,
    profile_reuse: Annotated[
        bool,
        typer.Option("--enable-profile-reuse", help="No effect: hpcosim always keeps profiles."),
    ] = False,
    compute_sharing: Annotated[
        bool,
        typer.Option(
            "--enable-compute-sharing", help="Let a host run several jobs at the same time."
        ),
    ] = False,
    disable_storage_sharing: Annotated[
        bool,
        typer.Option("--disable-storage-sharing", help="Only reported to the scheduler."),
    ] = False,
    sched_cfg: Annotated[str, typer.Option(help="Configuration text for the scheduler.")] = "",
    sched_cfg_file: Annotated[
        Path | None, typer.Option(help="File with a configuration text for the scheduler.")
    ] = None,
    no_machine_states: Annotated[
        bool,
        typer.Option(
            "--disable-machine-state-tracing", help="Do not write PREFIX_machine_states.csv."
        ),
    ] = False,
    no_trace: Annotated[
        bool,
        typer.Option("--disable-schedule-tracing", help="No effect: hpcosim writes no Pajé trace."),
    ] = False,
    sg_cfg: SimGridConfig = None,
    sg_log: SimGridLog = None,
    no_sched: Annotated[
        bool,
        typer.Option("--no-sched", help="Run the jobs one after the other, without a scheduler."),
    ] = False,
    verbosity: Annotated[
        Verbosity,
        typer.Option(
            "--verbosity",
            "-v",
            help="quiet: only errors; network-only: messages, too; information, debug: messages "
            "and progress.",
        ),
    ] = "information",
    quiet: Quiet = False,
    dump: DumpContext = False,
    wall_times: Annotated[
        bool,
        typer.Option(
            "--wall-times",
            help="Write wall-clock times to PREFIX_schedule.csv; it then differs between runs.",
        ),
    ] = False,
    install: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write an executable `batsim` into FOLDER and exit.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the protocol version and exit.")
    ] = False,
    simgrid_version: SimGridVersion = False,
    hello_timeout_s: Annotated[
        float, typer.Option(min=0.1, help="Timeout for the scheduler's first reply, s.")
    ] = 60.0,
    timeout_s: Annotated[
        float, typer.Option(min=0.1, help="Timeout for every other reply, s.")
    ] = 600.0,
) -> None:
    """Run a scheduler that speaks Batsim's protocol 4.2.1 (JSON), instead of Batsim."""
    with errors_in_one_line():
        check_rest(context.args, UNSUPPORTED)
        from hpcosim_batsim.bridge.requester import BatsimTimeouts
        from hpcosim_batsim.bridge.run import BatsimOptions
        from hpcosim_batsim.install import install_as_batsim
        from hpcosim_batsim.run import Inputs, Outputs, dump_context, run_batsim

        if version or simgrid_version:
            typer.echo(VERSION if version else SIMGRID_VERSION)
            return
        if dump:
            typer.echo(dump_context(socket, export, scheduler=not no_sched))
            return
        if install is not None:
            typer.echo(install_as_batsim(install))
            return
        if platform is None:
            raise ScenariosError("no platform; name a SimGrid platform file with --platform (-p)")
        if not workloads and not dynamic_jobs:
            raise ScenariosError(
                "no workload; name a workload file with --workload (-w), or use "
                "--enable-dynamic-jobs"
            )
        level = "quiet" if quiet else verbosity
        report = print_line if level in ("information", "debug") else discard
        for option in [*["--sg-cfg"] * bool(sg_cfg), *["--sg-log"] * bool(sg_log)]:
            report(f"warning: {option} has no effect: hpcosim does not use SimGrid")
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
            BatsimOptions(
                energy=energy,
                compute_sharing=compute_sharing,
                storage_sharing=not disable_storage_sharing,
                forward_profiles=forward_profiles,
                dynamic_jobs=dynamic_jobs and not no_sched,
                acknowledge_dynamic_jobs=acknowledge_dynamic_jobs,
                profile_reuse=profile_reuse,
                forward_unknown_events=forward_unknown_events,
                sched_config=_config(sched_cfg, sched_cfg_file),
            ),
            None if no_sched else socket,
            Outputs(prefix=export, machine_states=not no_machine_states, wall_times=wall_times),
            BatsimTimeouts(hello_timeout_s, timeout_s),
            report=report,
            show=None if level == "quiet" else print_line,
        )


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command(context_settings=SETTINGS)(batsim)


def main() -> None:
    """Run the command on its own, as the executable `batsim`."""
    command = typer.main.get_command(app)
    convert_plainly(command)
    command()


def check_rest(rest: Sequence[str], unsupported: Mapping[str, str]) -> None:
    """Report arguments that no option takes.

    Args:
        unsupported: options of Batsim that are not supported, and why.
    """
    for argument in rest:
        name = argument.partition("=")[0]
        if name in unsupported:
            raise ScenariosError(
                f"{name} is an option of Batsim that is not supported: {unsupported[name]}"
            )
        if name.startswith("-"):
            raise ScenariosError(f"there is no option {name}; --help lists all options")
        raise ScenariosError(f"unexpected argument {argument!r}; --help lists all options")


def _roles(texts: Sequence[str]) -> dict[str, str]:
    roles: dict[str, str] = {}
    for text in texts:
        hosts, separator, role = text.partition(":")
        if not separator or not hosts or not role:
            raise ScenariosError(
                "--add-role-to-hosts: expected HOST,...:ROLE such as host1,host2:storage, got "
                f"{text!r}"
            )
        roles.update(dict.fromkeys(hosts.split(","), role))
    return roles


def _config(text: str, file: Path | None) -> str:
    if file is None:
        return text
    if text:
        raise ScenariosError("expected one of --sched-cfg and --sched-cfg-file, got both")
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenariosError(f"--sched-cfg-file: {file} cannot be read: {error}") from None


def print_line(text: str) -> None:
    """Write a line on standard error."""
    sys.stderr.write(f"{text}\n")


def discard(_: str) -> None:
    """Write nothing, for a quiet command."""
