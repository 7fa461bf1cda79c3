"""Errors of ours, each a line on standard error and an exit status."""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TextIO

import typer

RUN_FAILED = 1
BAD_INPUT = 2


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Turn the errors that packages of ours define into a line and an exit status."""
    _stop_on_sigterm()
    try:
        with _warnings_in_one_line():
            yield
    except KeyboardInterrupt as stopped:
        number = stopped.args[0] if stopped.args else signal.SIGINT
        sys.stderr.write(f"error: stopped by {signal.Signals(number).name}\n")
        raise typer.Exit(128 + number) from None
    except Exception as error:
        if not type(error).__module__.startswith("hpcosim_"):
            raise
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        raise typer.Exit(_exit_status(error)) from None


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Write each `FutureWarning`, such as of an old name, as one line on standard error, once."""

    def write(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        sys.stderr.write(f"warning: {message}\n")

    with warnings.catch_warnings():
        warnings.simplefilter("default", FutureWarning)
        warnings.showwarning = write
        yield


def _exit_status(error: Exception) -> int:
    """Return the exit status for an error: of a run that failed, or of bad input."""
    from hpcosim_batsim.errors import RunFailedError
    from hpcosim_client import ClientError, PolicyError
    from hpcosim_protocol import ProtocolError
    from hpcosim_scenarios.errors import RunError
    from hpcosim_server.errors import BindError, ResultsError, ResultsFolderError
    from hpcosim_workloads.errors import DownloadError

    if isinstance(error, (PolicyError, ResultsFolderError)):
        return BAD_INPUT
    if isinstance(error, DownloadError):
        return BAD_INPUT if error.fault == "address" else RUN_FAILED
    failed = (BindError, ClientError, ProtocolError, ResultsError, RunError, RunFailedError)
    return RUN_FAILED if isinstance(error, failed) else BAD_INPUT


def _stop_on_sigterm() -> None:
    """Let SIGTERM end a command as Ctrl-C does: what was recorded is written first."""

    def stop(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)
