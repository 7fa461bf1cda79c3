"""Options and arguments that several commands share."""

from __future__ import annotations

import difflib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from hpcosim_scenarios.running import Transport
from hpcosim_scenarios.shipped import find_scenario, shipped_experiments, shipped_scenarios

EXAMPLE = "tcp://127.0.0.1:28080"
T = TypeVar("T")

MAX_PORT = 65535
HEAD_BYTES = 2**16  # of a file, to recognize its format
PLATFORM, AXES = (
    re.compile(rb"^[{ \t\"']*%b[\"']?[ \t]*:" % key, re.M) for key in (b"platform", b"axes")
)
"""Keys that each scenario, and each experiment, has at its top level."""


def if_given(check: Callable[[T], T]) -> Callable[[Any], Any]:
    """Return a callback that checks a value that may not be given, or each of several."""

    def checked(value: T | list[T] | None) -> T | list[T] | None:
        if isinstance(value, list):
            return [check(one) for one in value]
        return None if value is None else check(value)

    return checked


def scenario_file(path: Path) -> Path:
    """Return the file of a scenario that is named by its path or, if shipped, by its name."""
    path = find_scenario(str(path))
    if path.is_dir():
        found = sorted(_scenarios_in(path))
        example = f", such as {found[0]}" if found else ""
        raise typer.BadParameter(f"{path} is a folder; expected a scenario file (YAML){example}")
    if path.exists() and not path.is_file():
        raise typer.BadParameter(f"{path} is not a regular file; expected a scenario file (YAML)")
    if not path.exists():
        raise typer.BadParameter(f"{path}: no such file or shipped scenario{_nearest(path)}")
    if other := _other_format(path):
        raise typer.BadParameter(f"{path}: {other}")
    return path


def experiment_file(path: Path) -> Path:
    """Return the file of an experiment that is named by its path or, if shipped, by its name."""
    if path.is_file():
        head = head_of(path)
        if PLATFORM.search(head) and not AXES.search(head):
            raise typer.BadParameter(_a_scenario(str(path)))
        return path
    shipped = shipped_experiments()
    if not path.exists() and str(path) in shipped:
        return shipped[str(path)]
    if path.exists():
        raise typer.BadParameter(
            f"{path} is not a regular file; expected an experiment file (YAML)"
        )
    if str(path) in shipped_scenarios():
        raise typer.BadParameter(_a_scenario(str(path)))
    files = [str(file) for file in _scenarios_in(path.parent)]
    near = difflib.get_close_matches(str(path), [*files, *shipped], n=1)
    advice = f"did you mean {near[0]}?" if near else f"shipped are {', '.join(shipped) or 'none'}"
    raise typer.BadParameter(f"{path}: no such file or shipped experiment; {advice}")


def scheduler_name(name: str | None) -> str | None:
    """Check that the name of a scheduler is not empty, as an unset shell variable is."""
    if name == "":
        raise typer.BadParameter("expected the name of a scheduler, got an empty text")
    return name


def results_folder(path: Path) -> Path:
    """Check that a folder with the results of a run exists."""
    if path.is_dir():
        if (path / "run.json").exists():
            return path
        from hpcosim_view.run.folder import instead_of_results

        raise typer.BadParameter(f"{path} is not a results folder: {instead_of_results(path)}")
    if path.exists():
        near = f", such as {path.parent}" if (path.parent / "run.json").exists() else ""
        raise typer.BadParameter(f"{path} is a file; expected a results folder{near}")
    raise typer.BadParameter(f"{path}: no such folder; `hpcosim run` writes a results folder")


def output_file(path: Path | None) -> Path | None:
    """Check that an output file, if one is given, is not a folder."""
    if path is not None and path.is_dir():
        raise typer.BadParameter(f"{path} is a folder; expected the path of a file")
    return path


def server_address(address: str) -> str:
    """Check the address of a server to connect to."""
    _check_scheme(address)
    if address.startswith("tcp://"):
        _check_port(address)
    return address


def listening_address(address: str) -> str:
    """Check the address that a server listens at."""
    _check_scheme(address)
    return address


def _check_scheme(address: str) -> None:
    scheme, separator, rest = address.partition("://")
    expected = f"expected tcp://HOST:PORT, such as {EXAMPLE}, or ipc://PATH"
    if not separator:
        near = f"; did you mean tcp://{address}?" if ":" in address else f"; {expected}"
        raise typer.BadParameter(f"{address!r} has no transport, tcp:// or ipc://{near}")
    if scheme not in ("tcp", "ipc"):
        raise typer.BadParameter(f"unknown transport in {address!r}; {expected}")
    if not rest:
        raise typer.BadParameter(f"{address!r} is incomplete; {expected}")


def _check_port(address: str) -> None:
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    expected = f"expected tcp://HOST:PORT, such as {EXAMPLE}"
    if not (host and port.isdecimal()):
        raise typer.BadParameter(f"{address!r} has no port; {expected}")
    if int(port[:6]) > MAX_PORT:
        raise typer.BadParameter(f"{address!r}: a port is at most {MAX_PORT}; {expected}")


def _other_format(path: Path) -> str:
    """Return what a file is and how to use it; empty: it may be a scenario."""
    head = head_of(path)
    if AXES.search(head) and not PLATFORM.search(head):
        return _an_experiment(str(path))
    if path.suffix in (".swf", ".gz") or head.startswith(b";"):
        return "this is a job log; name it in workload.swf of a scenario"
    if head.startswith(b"<") and b"<platform" in head:
        return f"this is a SimGrid platform; use hpcosim batsim -p {path} -w WORKLOAD.json"
    if head.startswith(b"{") and (b'"nb_res"' in head or b'"subtime"' in head):
        return f"this is a Batsim workload; use hpcosim batsim -p PLATFORM.xml -w {path}"
    if head.startswith(b"{") and b'"effective_scenario"' in head:
        return "this describes a run; its scenario is under effective_scenario"
    return ""


def head_of(path: Path) -> bytes:
    """Return the begin of a file; empty: reading it will report the error."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES).lstrip()
    except OSError:
        return b""


def _a_scenario(name: str) -> str:
    return (
        f"{name} is a scenario: `hpcosim run {name}` runs it; an experiment names it and has axes, "
        f"as in `{{scenario: {name}, axes: {{scheduler: [fcfs, easy]}}}}`"
    )


def _an_experiment(name: str) -> str:
    return f"this is an experiment, not a scenario: use `hpcosim experiment {name}`"


def _nearest(path: Path) -> str:
    """Return a hint: the scenario with the most similar file name, or the list of all."""
    if str(path) in shipped_experiments():
        return f"; {_an_experiment(str(path))}"
    files = {file.name: str(file) for file in _scenarios_in(path.parent)}
    shipped = {key: name for name in shipped_scenarios() for key in (name.split("/")[-1], name)}
    name = re.sub(r"\.ya?ml$", "", str(path))
    for known, wanted in ((files, path.name), (shipped, name)):
        if found := difflib.get_close_matches(wanted, known, n=1):
            return f"; did you mean {known[found[0]]}?"
    return "; `hpcosim scenarios` lists the shipped scenarios"


def _scenarios_in(folder: Path) -> Iterator[Path]:
    yield from folder.glob("*.yaml")
    yield from folder.glob("*.yml")


SERVER = EXAMPLE

ScenarioFile = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO",
        help="Scenario file (YAML), or the name of a shipped scenario, such as demo.",
        callback=scenario_file,
    ),
]
ResultsFolder = Annotated[
    Path,
    typer.Argument(metavar="RESULTS", help="Results folder of a run.", callback=results_folder),
]
PowerAwareness = Annotated[
    str,
    typer.Option(help="Treatment of nodes that are not on: unaware, aware, planned or ipm."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Replace a value of the scenario by a YAML value, such as workload.load=1.2. "
        "Repeatable.",
    ),
]
Seed = Annotated[int | None, typer.Option(min=0, help="Random seed. Default: the scenario's seed.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        callback=scheduler_name,
        help="Scheduler; `hpcosim schedulers` lists them. Default: the scenario's scheduler.",
    ),
]
InProcess = Annotated[
    bool,
    typer.Option(
        "--in-process",
        help="Load a library, such as libmine.so, into this process instead of a child: it is "
        "faster, and its crash ends the command.",
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Replace the results in --out. Other files in it are kept."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Lenient = Annotated[
    bool, typer.Option("--lenient", help="Skip corrupt lines of the job log and count them.")
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain", help="Record why jobs wait, as the scheduler says, in explanations.csv."
    ),
]
TransportOption = Annotated[
    Transport,
    typer.Option(
        help="ipc, tcp: simulator and scheduler in two processes; inproc: in one. "
        "The results are identical."
    ),
]
Connect = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Address of the server.", callback=server_address)
]
Bind = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        callback=listening_address,
        help="Address to listen at; a public one needs --keys.",
    ),
]
ServerKeys = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        metavar="DIR",
        help="Folder of keys of `hpcosim keygen`: only their clients can connect.",
    ),
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="Listen at a public address without keys."),
]
Keys = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="Folder of this client's keys, as `hpcosim keygen` makes it, or file of its secret "
        "key. Default: the server has no keys.",
    ),
]
ServerKey = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Public key of the server. Default: server.key beside the secret key."
    ),
]
Formats = Annotated[
    list[str] | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Also write the results in this format: batsim. Repeatable.",
    ),
]


POLL_S = 0.5
GRACE_S = 10.0  # for the policy to return to Python, which handles the signal

Parent = Annotated[
    int | None,
    typer.Option(hidden=True, help="Stop at the end of the parent process with this number."),
]


def overrides_of(
    changes: list[str] | None, seed: int | None, lenient: bool, *, explain: bool = False
) -> dict[str, Any]:
    """Return the values of a scenario that the options of a command replace, by dotted path."""
    from hpcosim_scenarios.model.overrides import parse

    overrides = parse(changes or [])
    if seed is not None:
        overrides["seed"] = seed
    if lenient:
        overrides["workload.lenient"] = True
    if explain:
        overrides["scheduler.explain"] = True
    return overrides


def workload_override(path: Path | None) -> dict[str, Any]:
    """Return the override of a scenario's workload by a file of jobs; None: none."""
    if path is None:
        return {}
    if not path.is_file():
        raise typer.BadParameter(f"--workload: {path}: no such file")
    kind = "swf" if ".swf" in path.suffixes else "json"
    return {"workload": {kind: str(path.resolve())}}


def in_this_process(name: str) -> str:
    """Return the name of a scheduler of a library, for this process instead of a child."""
    from hpcosim_client.library import IN_PROCESS, is_library

    if not is_library(name):
        raise typer.BadParameter(
            f"--in-process is for libraries, such as ./libmine.so; got {name or 'none'}"
        )
    return name if name.startswith(IN_PROCESS) else f"{IN_PROCESS}{name}"


def names_of(text: str) -> list[str]:
    """Return the names in a comma-separated list."""
    if text.strip()[:1] in ("[", "("):
        plain = ",".join(part.strip() for part in text.strip(" []()").split(","))
        raise typer.BadParameter(
            f"expected names separated by commas, such as {plain}, got {text!r}"
        )
    return [name.strip() for name in text.split(",") if name.strip()]


def end_with(parent: int | None) -> None:
    """Stop this process as SIGTERM does when its parent has ended."""
    if parent is not None:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(128 + signal.SIGTERM)
