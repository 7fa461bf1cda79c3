"""Help texts of commands, and command groups that report wrong usage in one line."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from hpcosim_protocol.errors import HpcosimError

# Older versions of typer take this class from click, newer ones have their own copy.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

SEPARATORS = {"PATH=VALUE": "=", "NAMES": ",", "MANAGERS": ",", "FILES": ","}
"""What separates the parts of an option's value, by its metavar."""

NUMBERS = {int: r"[-+]?[0-9]{1,18}", float: r"[-+]?[0-9]{1,18}([.][0-9]*)?(e[-+]?[0-9]{1,2})?"}

# Patterns of typer's messages, each with its replacement. The last two are of older versions.
_WORDINGS = (
    ("' / '", " / "),  # the names of one option
    ("^Invalid value for '([^:]+)': ", r"\1: "),
    ("Value error, ", ""),
    ("Input should be (greater|less)", r"expected a value \1"),
    ("Input should be a valid integer.*", "expected an integer without a unit"),
    ("Input should be a valid number.*", "expected a number without a unit"),
    (r"('.*') is not a valid integer.*", r"expected an integer without a unit, got \1"),
    (r"('.*') is not a valid float.*", r"expected a number without a unit, got \1"),
)


RUN_FAILED = 1
BAD_INPUT = 2


def help_of(command: Callable[..., Any]) -> str:
    """Return the docstring of a command with one line per paragraph, as typer keeps line breaks."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options: dataclasses, each field of which is an option."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {
        name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)
    }
    parameters: list[inspect.Parameter] = []
    for each in inspect.signature(command).parameters.values():
        if each.name not in groups:
            parameters.append(each.replace(annotation=hints[each.name]))
            continue
        kind = groups[each.name]
        of_fields = get_type_hints(kind, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name, each.kind, default=field.default, annotation=of_fields[field.name]
            )
            for field in dataclasses.fields(kind)
        ]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, kind in groups.items():
            names = [field.name for field in dataclasses.fields(kind)]
            values[name] = kind(**{each: values.pop(each) for each in names})
        command(**values)

    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


class CommandGroup(TyperGroup):
    """A command group that reports wrong usage as `error: ...` and exits with status 2."""

    def main(self, *args: Any, standalone_mode: bool = True, **options: Any) -> Any:
        """Run the command line.

        Args:
            standalone_mode: exit the process with a status; False: raise errors.
        """
        convert_plainly(self)
        options["standalone_mode"] = False
        if not standalone_mode:
            return super().main(*args, **options)
        try:
            status = super().main(*args, **options)
        except _UsageError as error:
            words = args[0] if args else options.get("args")
            sys.stderr.write(_line(error, sys.argv[1:] if words is None else words))
            status = BAD_INPUT
        sys.exit(status)


def convert_plainly(command: Any, parent: typer.Context | None = None) -> None:
    """Convert the values of plain types without pydantic, which newer versions of typer import.

    It takes as long to import as NumPy. Typer converts all other values, and reports bad ones.
    """
    context = typer.Context(command, parent=parent, **command.context_settings)
    for each in getattr(command, "commands", {}).values():
        convert_plainly(each, context)
    for parameter in (*command.params, command.get_help_option(context)):
        if hasattr(parameter, "_runtime_param"):
            parameter._runtime_param = _Plain()
        if " " in (parameter.metavar or ""):
            parameter.nargs, parameter._runtime_param = 2, _Pairs()


class _Pairs:
    """Takes the place of `RuntimeParam` of a repeatable option with two values, `FIRST SECOND`.

    Typer knows no such options; they are declared as `list[str]`.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> list[tuple[str, ...]]:
        """Return the values of each occurrence of the option."""
        return [tuple(map(str, pair)) for pair in value or ()]


class _Plain:
    """Takes the place of typer's `RuntimeParam` of a parameter."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the converted value of a parameter."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        described = param.type_descriptor
        try:
            if not several:
                return _converted(value, described.annotation, described.parameter_info)
            if isinstance(value, list | tuple):
                (kind,) = get_args(described.annotation)
                return [_converted(each, kind, described.parameter_info) for each in value]
        except ValueError:
            pass
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _converted(value: Any, kind: Any, described: Any) -> Any:
    """Return a value as a text, a path, a number or a choice."""
    if kind is str and isinstance(value, str):
        return value
    if kind is Path and (not os.path.lexists(value) or os.access(value, os.R_OK)):
        return Path(value)
    if kind in NUMBERS and re.fullmatch(NUMBERS[kind], str(value)):
        number = kind(value)
        least, most = described.min, described.max
        if (least is None or least <= number) and (most is None or number <= most):
            return number
    if get_origin(kind) is Literal and value in get_args(kind):
        return value
    raise ValueError


def _line(error: Any, words: Sequence[str]) -> str:
    """Return the message of a usage error; it is empty if the help text was printed."""
    text = " ".join(error.format_message().split()).rstrip(".")
    if not text:
        return ""
    for pattern, replacement in _WORDINGS:
        text = re.sub(pattern, replacement, text)
    if text.startswith("No such option: --listen") and _has_option(error, "--bind"):
        text = "No such option: --listen; did you mean --bind?"
    if "unexpected extra argument" in text and (joined := _joined(error, words)):
        text += f"; did you mean {joined}?"
    if not text.endswith("?") and error.ctx is not None:
        text += f"; see `{error.ctx.command_path} --help`"
    if text[1:2].islower():
        text = text[0].lower() + text[1:]
    return f"error: {text}\n"


def _joined(error: Any, words: Sequence[str]) -> str:
    """Return an option with its value as one word, where a blank divides it; empty: none is."""
    if error.ctx is None:
        return ""
    for option in error.ctx.command.params:
        separator = SEPARATORS.get(option.metavar or "")
        for at, name in enumerate(words):
            if separator is None or name not in option.opts:
                continue
            value = list(itertools.takewhile(lambda word: word[:1] != "-", words[at + 1 :]))
            if separator == "=":
                value = value[:2] if value[:1] and "=" not in value[0] else []
            if len(value) > 1:
                return f"{name} {separator.join(value)}"
    return ""


def _has_option(error: Any, name: str) -> bool:
    return error.ctx is not None and any(name in each.opts for each in error.ctx.command.params)


@contextmanager
def errors_in_one_line(*, sigterm_interrupts: bool = True) -> Iterator[None]:
    """Report the errors of hpcosim's packages and of files in one line, then exit.

    Other exceptions are bugs: they keep their traceback.

    Args:
        sigterm_interrupts: whether SIGTERM is handled like Ctrl-C. A command that handles signals
            itself says no: until it does, SIGTERM ends the process. Python can lose the exception
            of a handler while it imports modules, and the command would never end.
    """
    if sigterm_interrupts:
        _stop_on_sigterm()
    try:
        with _warnings_in_one_line():
            yield
    except KeyboardInterrupt as stopped:
        number = stopped.args[0] if stopped.args else signal.SIGINT
        sys.stderr.write(f"error: stopped by {signal.Signals(number).name}\n")
        raise typer.Exit(128 + number) from None
    except BrokenPipeError:
        raise  # typer ends the command in silence
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"error: {where}{error.strerror or error}\n")
        raise typer.Exit(RUN_FAILED) from None
    except HpcosimError as error:
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        raise typer.Exit(error.exit_status) from None


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Write each `FutureWarning`, such as that of an old name, once as one line."""

    def write(message: Warning | str, *_: object, **__: object) -> None:
        sys.stderr.write(f"warning: {message}\n")

    with warnings.catch_warnings():
        warnings.simplefilter("default", FutureWarning)
        warnings.showwarning = write
        yield


def _stop_on_sigterm() -> None:
    """Handle SIGTERM like Ctrl-C, so that the results recorded so far are written."""

    def stop(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)


def _examples(*commands: str) -> str:
    lines = "\n".join(commands)
    return f"Examples:\n\n\b{lines}"  # \b: the documentation shows the paragraph as code


EXAMPLES: Mapping[str, str] = {
    "run": _examples(
        "hpcosim run my_cluster.yaml",
        "hpcosim run demo --scheduler conservative --out results/a",
        "hpcosim run demo --set workload.load=2 --seed 3 --json",
        "hpcosim run demo --watch --speed 3600",
    ),
    "compare": _examples(
        "hpcosim compare demo --schedulers fcfs,sjf,easy",
        "hpcosim compare demo --schedulers all-heuristics --json",
        "hpcosim compare demo --platforms demo,larger.yaml --schedulers fcfs,easy",
        "hpcosim compare office-hours --baseline always-on \\\n"
        "    --power 'always-on, {name: timeout, timeout_s: 900}'",
    ),
    "experiment": _examples(
        "hpcosim experiment backfilling --dry-run",
        "hpcosim experiment my_study.yaml --out results/study -j 8",
    ),
    "serve": _examples(
        "hpcosim serve demo --once --out results/mine",
        "hpcosim serve demo --bind tcp://127.0.0.1:5555 --sessions 2",
        "hpcosim serve demo --http 127.0.0.1:8080 --speed 3600",
    ),
    "slurm": _examples(
        "hpcosim slurm --journal watched.jsonl",
        "hpcosim slurm --partition batch --poll-s 5",
        "hpcosim slurm --mode place --partition main --waiting-partition queue --dry-run",
        "hpcosim slurm report watched.jsonl --out watched",
    ),
    "keygen": _examples(
        "hpcosim keygen keys",
        "hpcosim keygen keys --name laptop",
        "hpcosim serve demo --bind 'tcp://*:28080' --keys keys/server",
        "hpcosim schedule easy --connect tcp://simulator:28080 --keys keys/laptop",
    ),
    "schedule": _examples(
        "hpcosim schedule easy",
        "hpcosim schedule easy --name student7",
        "hpcosim schedule easy --connect tcp://127.0.0.1:5555 --scenario demo",
    ),
    "replay": _examples(
        "hpcosim replay out/.journal/ended/demo-easy-1f3a9c02.journal",
        "hpcosim replay easy.journal --until 86400 --from-here fcfs --out results/what-if",
    ),
    "ping": _examples("hpcosim ping tcp://127.0.0.1:28080 --timeout-s 10"),
    "status": _examples("hpcosim status", "hpcosim status --connect tcp://127.0.0.1:5555 --json"),
    "twin": _examples(
        "hpcosim twin",
        "hpcosim twin --sacct sacct.psv --scenario cluster.yaml --speed 60",
    ),
    "ask": _examples(
        "hpcosim ask queue",
        "hpcosim ask queue --twin http://127.0.0.1:28090",
        "hpcosim ask queue --futures 200 --workers 0 --calibration cluster.json --json",
        "hpcosim ask queue --save queue.json",
        "hpcosim ask queue --state queue.json --history sacct.psv",
        "hpcosim ask ways '-n 16 -t 2:00:00' '-n 32 -t 1:00:00'",
        "hpcosim ask advice --job 4711",
        "hpcosim ask map partition=batch",
        "hpcosim ask what-if change='{drain: node3}' days=2",
        "hpcosim ask record --twin http://127.0.0.1:28090",
    ),
    "calibrate": _examples(
        "hpcosim calibrate --conf slurm.conf --sacct jobs.psv -o cluster.json --report page.html",
        "hpcosim calibrate --conf slurm.conf --sacct jobs.psv --until 2026-11-01 -o cluster.json",
    ),
    "conformance": _examples(
        "hpcosim conformance --client 'python my_scheduler.py {address}'",
        "hpcosim conformance --server tcp://127.0.0.1:28080 --scenario conformance",
    ),
    "validate": _examples(
        "hpcosim validate demo",
        "hpcosim validate demo --set workload.load=0.8",
    ),
    "scenarios": _examples("hpcosim scenarios", "hpcosim scenarios demo > my_cluster.yaml"),
    "draw": _examples("hpcosim show draw results/demo-easy"),
    "squeue": _examples(
        "hpcosim show squeue results/demo-easy --at 2d",
        "hpcosim show squeue --server http://127.0.0.1:8080 --start",
    ),
    "sinfo": _examples(
        "hpcosim show sinfo results/demo-easy --at 50%",
        "hpcosim show sinfo --server http://127.0.0.1:8080",
    ),
    "top": _examples(
        "hpcosim show top results/demo-easy --speed 7200",
        "hpcosim show top --server http://127.0.0.1:8080",
    ),
    "export": _examples(
        "hpcosim export results/demo-easy --perfetto demo.pftrace",
        "hpcosim export results/demo-easy --parquet tables --swf demo.swf",
    ),
    "report": _examples(
        "hpcosim report results/demo-easy",
        "hpcosim report results/compared/fcfs results/compared/easy -o compared.html",
    ),
    "import slurm": _examples(
        "hpcosim import slurm --conf slurm.conf --sacctmgr dump.cfg -o cluster.yaml",
        "hpcosim import slurm --conf slurm.conf --reservations reservations.txt "
        "--start 2026-03-02T08:00:00 -o cluster.yaml",
    ),
    "import sacct": _examples(
        "hpcosim import sacct sacct.psv -o jobs.jsonl --time-zone Europe/Berlin",
        "hpcosim import sacct sacct.psv.gz -o jobs.jsonl --anonymize --names private.json",
    ),
    "import pbs": _examples(
        "hpcosim import pbs server_priv/accounting/202603* -o site",
        "hpcosim compare site/cluster.yaml --schedulers recorded,easy",
    ),
    "import lsf": _examples("hpcosim import lsf lsb.acct.2 lsb.acct.1 lsb.acct -o site"),
    "import sge": _examples("hpcosim import sge accounting.gz -o site --cores-per-node 48"),
    "import oar": _examples("hpcosim import oar oar.sql.gz -o site --anonymize"),
    "import kubernetes": _examples(
        "hpcosim import kubernetes pods.csv -o jobs.jsonl --column cores_milli=cpu",
    ),
    "batsim5": _examples(
        "hpcosim batsim5 -p platform.xml -w jobs.json -l ./libfcfs.so '{}'",
        "hpcosim batsim5 -p platform.xml -w jobs.json -S tcp://localhost:28000 init.json",
    ),
    "import batsim": _examples(
        "hpcosim import batsim -p platform.xml -w jobs.json -o batsim.yaml",
    ),
    "benchmark run": _examples(
        "hpcosim benchmark run backfilling-1 --scheduler easy --out easy.zip",
        "hpcosim benchmark run backfilling-1 --client 'python mine.py --connect {address}' \\\n"
        "    --name mine --out mine.zip",
    ),
    "benchmark verify": _examples("hpcosim benchmark verify mine.zip"),
    "benchmark leaderboard": _examples("hpcosim benchmark leaderboard easy.zip mine.zip"),
    "reproduce": _examples("hpcosim reproduce", "hpcosim reproduce ineps --out results/ineps"),
}
"""The epilog of a command's help text, by command."""
