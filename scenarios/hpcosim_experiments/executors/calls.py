"""The call of a function for a task in a worker."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_experiments.executors.interface import ExecutorError, InputFiles

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables for the number of threads of linear algebra and PyTorch."""

ONE_THREAD = dict.fromkeys(THREADS, "1")


KILLED = ", probably because memory ran out (use fewer workers)"
"""Probable cause of a SIGKILL from outside of hpcosim."""


NOT_STARTED = (
    "a worker process ended while it started; a script that starts workers must do so under "
    'if __name__ == "__main__":, because every worker imports the script'
)
STARTED = "started"
"""First message of the process."""


class Outcome(NamedTuple):
    """Outcome of a call.

    Attributes:
        result: value that the function returned; None if there is an error.
        error: the exception in one line; empty: there is a result.
    """

    result: Any
    error: str


class FilesInPlace(NamedTuple):
    """Input files that a worker reads where the driver does.

    Attributes:
        folder: the folder that relative paths start from.
    """

    folder: Path

    def local(self, path: Path) -> Path:
        """Return the path of a file, see `InputFiles.local`."""
        return Path(os.path.abspath(self.folder / path))

    def original(self, text: str) -> str:
        """Return the text, see `InputFiles.original`."""
        return text


def outcome_of(function: Callable[[Any, InputFiles], Any], task: Any, files: InputFiles) -> Outcome:
    """Call a function for a task; an exception becomes one line."""
    try:
        return Outcome(function(task, files), "")
    except Exception as error:
        return Outcome(None, files.original(in_one_line(error)))


def packed_outcome(function: bytes, task: bytes, files: InputFiles) -> bytes:
    """Call a pickled function for a pickled task, and return the pickled outcome.

    The bytes come from the user's own driver.
    """
    try:
        outcome = outcome_of(pickle.loads(function), pickle.loads(task), files)  # noqa: S301
    except Exception as error:
        outcome = Outcome(None, f"the task cannot be unpickled: {in_one_line(error)}")
    try:
        return packed(outcome)
    except Exception as error:
        return packed(Outcome(None, f"the result cannot be pickled: {in_one_line(error)}"))


def packed(value: Any) -> bytes:
    """Return a value pickled."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def unpacked_outcome(outcome: bytes) -> Outcome:
    """Return an outcome that a worker of this driver has pickled."""
    try:
        found: Outcome = pickle.loads(outcome)  # noqa: S301
    except Exception as error:
        return Outcome(None, f"the result cannot be unpickled: {in_one_line(error)}")
    return found


def in_one_line(error: BaseException) -> str:
    """Return an exception and where it was raised, in one line."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
    if frames := traceback.extract_tb(error.__traceback__):
        text += f" (in {frames[-1].name}, {Path(frames[-1].filename).name}:{frames[-1].lineno})"
    return text


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables of the processes that start in the context."""
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


def set_environment(folders: Mapping[str, Path], files: InputFiles) -> None:
    """Set environment variables that name folders of input files.

    Args:
        folders: folders on the driver by name of the variable.
        files: the input files on this machine.
    """
    os.environ.update({name: str(files.local(folder)) for name, folder in folders.items()})


class ChildProcess:
    """A process that runs a function, as its parent sees it.

    The process ends with its parent, also if the parent is killed.

    Args:
        serve: function that the process runs; its first argument is the process's connection.
        arguments: the other arguments.
        variables: environment variables of the process.
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
