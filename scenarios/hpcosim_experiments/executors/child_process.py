"""A process on this machine that serves its parent over a pipe and ends with it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from typing import Any

from hpcosim_experiments.executors.calls import environment
from hpcosim_experiments.executors.interface import ExecutorError

KILLED = ", probably because memory ran out (use fewer workers)"
"""Probable cause of a SIGKILL from outside of hpcosim."""


NOT_STARTED = (
    "a worker process ended while it started; a script that starts workers must do so under "
    'if __name__ == "__main__":, because every worker imports the script'
)
STARTED = "started"
"""First message of the process."""


class ChildProcess:
    """A process that runs a function, as its parent sees it.

    The process ends with its parent, also if the parent is killed.

    Args:
        serve: function that the process runs; its first argument is the process's connection.
        arguments: the other arguments.
        variables: environment variables of the process.

    Attributes:
        connection: the parent's end of the pipe.
    """

    def __init__(
        self, serve: Callable[..., None], arguments: tuple[Any, ...], variables: Mapping[str, str]
    ) -> None:
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(serve, theirs, arguments), daemon=False)
        with environment(variables), _interrupts_blocked():
            self._process.start()
        theirs.close()  # so that the end of the process ends the connection
        self._started = False

    def signs(self) -> list[Any]:
        """Return what becomes readable when there is a message, or none will come."""
        return [self.connection, self._process.sentinel]

    def starts(self) -> bool:
        """Wait for the process to start; return False if that is known already.

        Raises:
            ExecutorError: the process has ended before it could serve.
        """
        if self._started:
            return False
        if self._next() is None:
            raise ExecutorError(NOT_STARTED)
        self._started = True
        return True

    def receive(self) -> Any:
        """Wait for a message and return it; None: the process has ended.

        Raises:
            ExecutorError: the process has ended before it could serve.
        """
        self.starts()
        return self._next()

    def _next(self) -> Any:
        connection.wait(self.signs())
        try:
            # A process that the child forked keeps the connection open.
            return self.connection.recv() if self.connection.poll() else None
        except (EOFError, OSError):
            return None

    def stop(self, patience_s: float = 0.0, *, terminate: bool = False) -> str:
        """End the process, and return how it ended.

        Args:
            patience_s: time for the process to end by itself after its connection is closed, s.
            terminate: send SIGTERM, to a process that does not look at its connection.
        """
        self.connection.close()
        if terminate:
            self._process.terminate()
        self._process.join(patience_s)
        self._process.kill()  # SIGTERM may be ignored, as it was when the parent started
        self._process.join()
        code = self._process.exitcode or 0
        self._process.close()
        if code < 0:
            cause = KILLED if code == -signal.SIGKILL else ""
            return f"was killed by {signal.Signals(-code).name}{cause}"
        return f"ended with exit status {code}"


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT in processes that start, until they handle it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def _run(
    serve: Callable[..., None], calls: connection.Connection, arguments: tuple[Any, ...]
) -> None:
    signal.signal(signal.SIGINT, _leave_to_parent)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        calls.send(STARTED)
        serve(calls, *arguments)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent has closed the connection


def _leave_to_parent(*_: object) -> None:
    """Ignore Ctrl-C, but not in processes that tasks start, as SIG_IGN would."""


def _end_with_parent() -> None:
    """End this process, in the middle of a task too, when its parent has ended."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
