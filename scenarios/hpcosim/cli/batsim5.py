"""The command `hpcosim batsim5`: runs components of Batsim 5, with the options of Batsim 5."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hpcosim.cli.batsim import (
    SETTINGS,
    SIMGRID_VERSION,
    DumpContext,
    MasterHost,
    MaxHosts,
    MaxHostsOfWorkload,
    PlatformFile,
    Quiet,
    SimGridConfig,
    SimGridLog,
    SimGridVersion,
    WorkloadFiles,
    check_rest,
    discard,
    print_line,
)
from hpcosim.cli.usage import errors_in_one_line
from hpcosim_scenarios.errors import ScenariosError

if TYPE_CHECKING:
    from hpcosim_batsim.edc.components import ComponentPlan

__all__ = ["SETTINGS", "batsim5"]

VERSION = "5.0.0 (protocol version; implemented by hpcosim)"
LINKS = "hpcosim does not simulate the energy of links, as Batsim 5; use --energy-host"
COMMITS = "hpcosim is not built from sources of Batsim and SimGrid"

# Options of Batsim 5 that are not supported, and why.
UNSUPPORTED: Mapping[str, str] = {
    "-E": LINKS,
    "--energy": LINKS,
    "--energy-link": LINKS,
    "--gen-config": "hpcosim only reads configuration files",
    "--trace-probe-data": "the data of probes is only sent to the component",
    "--batsim-git-commit": COMMITS,
    "--simgrid-git-commit": COMMITS,
}

NOT_IN_FILES = ("config", "version", "simgrid_version", "dump")  # parameters of the command

Pairs = list[str]
"""Type of an option with two values, see `usage.convert_plainly`; its value has pairs."""


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Let the options of a configuration file be the defaults of the command."""
    if path is None:
        return None
    with errors_in_one_line():
        try:
            with path.open("rb") as file:
                values = tomllib.load(file)
        except OSError as error:
            raise ScenariosError(f"--config: {path} cannot be read: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ScenariosError(f"--config: {path} is not TOML: {error}") from None
        check_rest([f"--{name}" for name in values if f"--{name}" in UNSUPPORTED], UNSUPPORTED)
        options = {
            name.removeprefix("--"): option
            for option in context.command.params
            for name in option.opts
            if name.startswith("--")
        }
        defaults: dict[str, Any] = {}
        for name, value in values.items():
            if name not in options or options[name].name in NOT_IN_FILES:
                raise ScenariosError(f"--config: {path}: there is no option {name!r} for a file")
            option = options[name]
            where = f"--config: {path}: {name}"
            many = getattr(option, "multiple", False)
            defaults[str(option.name)] = (
                _several(value, option.nargs, where) if many else _single(value, where)
            )
        context.default_map = defaults
    return path


def _single(value: Any, where: str) -> Any:
    if isinstance(value, list | dict):
        raise ScenariosError(f"{where}: expected one value, got {value!r}")
    return value


def _several(value: Any, count: int, where: str) -> list[Any]:
    """Return the values of a repeatable option, each with `count` parts."""
    flat: list[Any] = []
    for part in value if isinstance(value, list) else [value]:
        flat += part if isinstance(part, list) else [part]
    if len(flat) % count:
        raise ScenariosError(f"{where}: expected {count} values each, got {len(flat)} in all")
    if count == 1:
        return flat
    return [tuple(map(str, flat[at : at + count])) for at in range(0, len(flat), count)]


def batsim5(
    context: typer.Context,
    platform: PlatformFile = None,
    workloads: WorkloadFiles = None,
    events: Annotated[
        list[Path] | None,
        typer.Option(
            "--external-events", "--ee", help="File of external events (JSON lines); repeatable."
        ),
    ] = None,
    export: Annotated[
        str,
        typer.Option(
            "--export", "-e", help="Path and start of the names of output files; FOLDER/: a folder."
        ),
    ] = "out/",
    machine_states: Annotated[
        bool, typer.Option("--trace-machine-state", help="Write PREFIXmachine_states.csv.")
    ] = False,
    pstates: Annotated[
        bool, typer.Option("--trace-pstate-changes", help="Write PREFIXpstate_changes.csv.")
    ] = False,
    library_texts: Annotated[
        Pairs | None,
        typer.Option(
            "--edc-library-str",
            "-l",
            metavar="LIBRARY TEXT",
            help="A component in a shared library, and its initialization data; repeatable.",
        ),
    ] = None,
    library_files: Annotated[
        Pairs | None,
        typer.Option(
            "--edc-library-file",
            "-L",
            metavar="LIBRARY FILE",
            help="The same with a file of initialization data.",
        ),
    ] = None,
    socket_texts: Annotated[
        Pairs | None,
        typer.Option(
            "--edc-socket-str",
            "-s",
            metavar="ADDRESS TEXT",
            help="A component that listens at tcp:// or ipc://, and its initialization data; "
            "repeatable.",
        ),
    ] = None,
    socket_files: Annotated[
        Pairs | None,
        typer.Option(
            "--edc-socket-file",
            "-S",
            metavar="ADDRESS FILE",
            help="The same with a file of initialization data.",
        ),
    ] = None,
    load_method: Annotated[
        Literal["dlmopen", "dlopen"],
        typer.Option(
            "--edc-library-load-method", help="No effect: a library has a process of its own."
        ),
    ] = "dlopen",
    interface: Annotated[
        Literal["auto", "hello", "flags"],
        typer.Option(
            "--edc-interface",
            help="hello: the initialization returns a hello, as in Batsim 5.0; flags: it gets "
            "flags and the hello follows, as before; auto: a library tells, a process has hello.",
        ),
    ] = "auto",
    master: MasterHost = "master_host",
    roles: Annotated[
        Pairs | None,
        typer.Option(
            "--add-role",
            "-r",
            metavar="HOST ROLE",
            help="Give a host a role: compute_node, master or storage; repeatable.",
        ),
    ] = None,
    mmax: MaxHosts = 0,
    mmax_workload: MaxHostsOfWorkload = False,
    energy: Annotated[
        bool, typer.Option("--energy-host", help="Simulate power and energy of hosts.")
    ] = False,
    sg_cfg: SimGridConfig = None,
    sg_log: SimGridLog = None,
    verbosity: Annotated[
        Literal["quiet", "info", "debug"],
        typer.Option(
            "--verbosity", "-v", help="quiet: only errors; info, debug: messages and progress."
        ),
    ] = "info",
    quiet: Quiet = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            is_eager=True,
            callback=_read_config,
            help="File of options (TOML), by their long names; the command line has precedence.",
        ),
    ] = None,
    dump: DumpContext = False,
    version: Annotated[
        bool,
        typer.Option("--version", "--batsim-version", help="Print the protocol version and exit."),
    ] = False,
    simgrid_version: SimGridVersion = False,
    wall_times: Annotated[
        bool,
        typer.Option(
            "--wall-times", help="Write PREFIXreal_exec_info.json; it differs between runs."
        ),
    ] = False,
    hello_timeout_s: Annotated[
        float, typer.Option(min=0.1, help="Timeout for the first reply of a process, s.")
    ] = 60.0,
    timeout_s: Annotated[
        float, typer.Option(min=0.1, help="Timeout for every other reply of a process, s.")
    ] = 600.0,
) -> None:
    """Run decision components (EDCs) of Batsim 5 instead of Batsim."""
    with errors_in_one_line():
        check_rest(context.args, UNSUPPORTED)
        from hpcosim_batsim.bridge.requester import BatsimTimeouts
        from hpcosim_batsim.edc.component_run import Outputs5, run_batsim5
        from hpcosim_batsim.edc.components import context_of
        from hpcosim_batsim.run import Inputs

        if version or simgrid_version:
            typer.echo(VERSION if version else SIMGRID_VERSION)
            return
        plans = [
            *_plans("library", library_texts, interface),
            *_plans("library", library_files, interface, files=True),
            *_plans("process", socket_texts, interface),
            *_plans("process", socket_files, interface, files=True),
        ]
        if dump:
            addresses = [plan.target for plan in plans if plan.kind == "process"]
            typer.echo(context_of(addresses[0] if addresses else "", export))
            return
        if platform is None:
            raise ScenariosError("no platform; name a SimGrid platform file with --platform (-p)")
        if not plans:
            raise ScenariosError(
                "no component; name a library with -l or -L, or an address with -s or -S"
            )
        loud = not quiet and verbosity != "quiet"
        report = print_line if loud else discard
        for option in [*["--sg-cfg"] * bool(sg_cfg), *["--sg-log"] * bool(sg_log)]:
            report(f"warning: {option} has no effect: hpcosim does not use SimGrid")
        run_batsim5(
            Inputs(
                platform=platform,
                workloads=workloads or (),
                events=None if events is None else tuple(events),
                master=master,
                roles=_roles(roles or ()),
                mmax=mmax,
                mmax_workload=mmax_workload,
            ),
            plans,
            Outputs5(
                prefix=export,
                machine_states=machine_states,
                pstates=pstates,
                wall_times=wall_times,
            ),
            BatsimTimeouts(hello_timeout_s, timeout_s),
            energy=energy,
            arguments=["batsim", *sys.argv[2:]],
            report=report,
            show=print_line if loud else None,
        )


def _roles(pairs: Sequence[Any]) -> dict[str, str]:
    return dict(pairs)


def _plans(
    kind: Literal["library", "process"],
    pairs: Sequence[Any] | None,
    interface: Literal["auto", "hello", "flags"],
    *,
    files: bool = False,
) -> list[ComponentPlan]:
    """Return the components of an option.

    Args:
        files: the second part of each pair is a file of initialization data, not the data.
    """
    from hpcosim_batsim.edc.components import ComponentPlan

    return [
        ComponentPlan(
            kind=kind,
            target=target,
            init=_read(Path(init)) if files else init.encode(),
            interface=None if interface == "auto" else interface,
        )
        for target, init in pairs or ()
    ]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        what = error.strerror or error
        raise ScenariosError(f"initialization data: {path} cannot be read: {what}") from None
