"""Conversion of errors to one line on standard error and an exit status."""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from hpcosim_protocol.errors import HpcosimError

RUN_FAILED = 1
BAD_INPUT = 2


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
