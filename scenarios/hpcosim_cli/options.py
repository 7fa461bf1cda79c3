"""What commands have in common: options, and errors in one line."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

RUN_FAILED = 1
BAD_INPUT = 2

ScenarioFile = Annotated[Path, typer.Argument(metavar="SCENARIO", help="A scenario's YAML file.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Change a value, as workload.load=1.2."),
]
Seed = Annotated[int | None, typer.Option(min=0, help="Instead of the scenario's own.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, nothing else.")]
Lenient = Annotated[
    bool, typer.Option("--lenient", help="Leave out corrupt lines of the workload; count them.")
]


def overrides_of(
    changes: list[str] | None, seed: int | None, lenient: bool
) -> dict[str, bool | int | float | str | None]:
    """Return the values that the options of a command change in a scenario.

    Raises:
        ScenarioError: one is not FIELD=VALUE.
    """
    from hpcosim_scenarios.model.overrides import parse

    overrides = parse(changes or [])
    if seed is not None:
        overrides["seed"] = seed
    if lenient:
        overrides["workload.lenient"] = True
    return overrides


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Turn our errors into a line on standard error and an exit status."""
    from hpcosim_batsim.errors import BatsimError, RunFailedError
    from hpcosim_client import ClientError, PolicyError
    from hpcosim_protocol import ProtocolError
    from hpcosim_scenarios.errors import RunError, ScenariosError
    from hpcosim_server.errors import BindError, ResultsError, ServerError
    from hpcosim_workloads.errors import WorkloadsError

    _stop_on_sigterm()
    try:
        yield
    except (RunError, RunFailedError, ResultsError, ClientError, ProtocolError) as error:
        code = BAD_INPUT if isinstance(error, PolicyError) else RUN_FAILED
        _fail(error, code)
    except BindError as error:
        _fail(error, RUN_FAILED)
    except (BatsimError, ScenariosError, ServerError, WorkloadsError) as error:
        _fail(error, BAD_INPUT)
    except KeyboardInterrupt as stopped:
        number = stopped.args[0] if stopped.args else signal.SIGINT
        sys.stderr.write(f"error: stopped by {signal.Signals(number).name}\n")
        raise typer.Exit(128 + number) from None


def _stop_on_sigterm() -> None:
    """Let SIGTERM end a command as Ctrl-C does: what was recorded is written first."""

    def stop(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)


def _fail(error: Exception, code: int) -> None:
    sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
    raise typer.Exit(code) from None
