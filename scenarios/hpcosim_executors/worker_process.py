"""A process that runs tasks for a driver on the same machine."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_executors.calls import (
    ONE_THREAD,
    FilesInPlace,
    Outcome,
    in_one_line,
    outcome_of,
    set_environment,
)

KILLED = ", probably because memory ran out (use fewer workers)"


class Call(NamedTuple):
    """Context of the calls in a worker.

    Attributes:
        files: the input files.
        folders: environment variables that name folders.
    """

    files: FilesInPlace
    folders: dict[str, Path]


class WorkerProcess:
    """A worker process, as the driver sees it.

    The process ends with its driver, also if the driver is killed.

    Args:
        call: context of its calls.
    """

    def __init__(self, call: Call) -> None:
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, call), daemon=False)
        with _environment(ONE_THREAD), _interrupts_blocked():
            self._process.start()
        theirs.close()  # so that the end of the process ends the connection

    def signs(self) -> list[Any]:
        """Return what becomes readable when there is an outcome, or none will come."""
        return [self._connection, self._process.sentinel]

    def send(self, function: Callable[..., Any], task: Any) -> None:
        """Start a task.

        Raises:
            Exception: the function or the task cannot be pickled.
        """
        call = pickle.dumps((function, task), pickle.HIGHEST_PROTOCOL)
        with suppress(OSError):  # the process has ended; `receive` reports it
            self._connection.send_bytes(call)

    def receive(self) -> Outcome | None:
        """Return the outcome of the task; None: the process has ended without one."""
        try:
            if not self._connection.poll():  # a process that the task forked keeps it open
                return None
            packed = self._connection.recv_bytes()
        except (EOFError, OSError):
            return None
        try:
            outcome: Outcome = pickle.loads(packed)  # noqa: S301 (of our own process)
        except Exception as error:
            return Outcome(None, f"the result cannot be unpickled: {in_one_line(error)}")
        return outcome

    def stop(self) -> str:
        """End the process, and return how it ended."""
        self._connection.close()
        self._process.kill()  # SIGTERM may be ignored, as it was when the driver started
        self._process.join()
        code = self._process.exitcode or 0
        self._process.close()
        if code < 0:
            cause = KILLED if code == -signal.SIGKILL else ""
            return f"was killed by {signal.Signals(-code).name}{cause}"
        return f"ended with exit status {code}"


def first_ready(workers: Iterable[WorkerProcess]) -> list[WorkerProcess]:
    """Wait for outcomes or ends of processes; return the workers that have one."""
    owners = {sign: worker for worker in workers for sign in worker.signs()}
    ready = connection.wait(list(owners))
    return list(dict.fromkeys(owners[sign] for sign in ready))


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT in processes that start, until they handle it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables of processes that start; libraries read them when loaded."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(calls: connection.Connection, call: Call) -> None:
    """Run tasks until the driver closes the connection."""
    signal.signal(signal.SIGINT, _leave_to_driver)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_end_with_driver, daemon=True).start()
    set_environment(call.folders, call.files)
    while True:
        try:
            packed = calls.recv_bytes()
            calls.send_bytes(_packed_outcome(packed, call.files))
        except (EOFError, OSError):
            return


def _leave_to_driver(*_: object) -> None:
    """Ignore Ctrl-C, but not in processes that tasks start, as SIG_IGN would."""


def _packed_outcome(packed: bytes, files: FilesInPlace) -> bytes:
    try:
        function, task = pickle.loads(packed)  # noqa: S301 (of our own driver)
        outcome = outcome_of(function, task, files)
    except Exception as error:
        outcome = Outcome(None, f"the task cannot be unpickled: {in_one_line(error)}")
    try:
        return pickle.dumps(outcome, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        outcome = Outcome(None, f"the result cannot be pickled: {in_one_line(error)}")
        return pickle.dumps(outcome, pickle.HIGHEST_PROTOCOL)


def _end_with_driver() -> None:
    """End this process, in the middle of a task too, when its driver has ended."""
    driver = parent_process()
    if driver is not None:
        connection.wait([driver.sentinel])
        os._exit(1)
