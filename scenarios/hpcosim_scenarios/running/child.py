"""Child processes that run a command of hpcosim: forked from this process or started anew.

A fork shares what this process has imported, so it starts in milliseconds; a new interpreter
imports everything again.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import select
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn, Protocol, TextIO

if TYPE_CHECKING:
    import subprocess

COMMAND = "hpcosim.cli"
STDOUT, STDERR = 1, 2  # file descriptors: `sys.stderr` of a notebook has none
LOST = 255
"""Exit status of a child whose own is not known."""
FIRST_FREE = 3  # after the standard file descriptors


class Child(Protocol):
    """A child process.

    Attributes:
        pid: its number.
        returncode: its exit status after it has ended, negative for a signal; None: not known yet.
        errors: what it writes to standard error.
    """

    pid: int
    returncode: int | None
    errors: TextIO

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; return whether the process has ended. None: without a timeout."""

    def send(self, number: int) -> None:
        """Send a signal to the process unless it has ended."""


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    keep_open: Sequence[int] = (),
    *,
    prints: bool = False,
    fork: bool = True,
) -> Child:
    """Start a command in a session of its own, so that Ctrl-C does not reach it.

    Args:
        command: the arguments of `hpcosim`.
        environment: additional environment variables.
        keep_open: file descriptors that the process inherits.
        prints: whether its standard output becomes this process's standard error; otherwise it is
            dropped.
        fork: whether it may be a fork of this process, which has run no code of a user's. It is one
            if this process has a single thread: a lock that another thread holds would stay locked
            in the fork.
    """
    output = _standard_error() if prints else None
    _keep_statuses()
    if fork and _can_fork():
        return _Forked(command, environment, keep_open, output)
    return _Started(command, environment, keep_open, output)


def _can_fork() -> bool:
    """Return whether this process has one thread, those of libraries included, on Linux."""
    try:
        os.close(os.pidfd_open(os.getpid()))
        return len(os.listdir("/proc/self/task")) == 1
    except (AttributeError, OSError):
        return False


def _standard_error() -> int | None:
    """Return the file descriptor of standard error; None: it is closed."""
    try:
        os.fstat(STDERR)
    except OSError:
        return None
    return STDERR


class _Started:
    """A child process with a new Python interpreter."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        keep_open: Sequence[int],
        output: int | None,
    ) -> None:
        import subprocess

        self._popen: subprocess.Popen[str] = subprocess.Popen(  # noqa: S603 - no shell
            [sys.executable, "-m", COMMAND, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if output is None else output,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            pass_fds=keep_open,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        assert self._popen.stderr is not None
        self.errors: TextIO = self._popen.stderr  # type: ignore[assignment]
        self.pid = self._popen.pid
        self.returncode: int | None = None

    def wait(self, timeout_s: float | None = None) -> bool:
        from subprocess import TimeoutExpired

        try:
            self.returncode = self._popen.wait(timeout_s)
        except TimeoutExpired:
            return False
        return True

    def send(self, number: int) -> None:
        self._popen.send_signal(number)


class _Forked:
    """A child process that is a fork of this one."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        keep_open: Sequence[int],
        output: int | None,
    ) -> None:
        reading, writing = os.pipe()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # otherwise the child would write what is buffered again
                stream.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _live(command, environment, {*keep_open}, output, writing)
        os.close(writing)
        self.errors: TextIO = os.fdopen(reading, encoding="utf-8", errors="replace")
        self.returncode: int | None = None
        self._ended = os.pidfd_open(self.pid)

    def wait(self, timeout_s: float | None = None) -> bool:
        if self.returncode is not None:
            return True
        ended = select.poll()
        ended.register(self._ended, select.POLLIN)
        if not ended.poll(None if timeout_s is None else 1000 * timeout_s):
            return False
        try:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:  # another part of this process took it: perhaps a failure
            self.returncode = LOST
        os.close(self._ended)
        return True

    def send(self, number: int) -> None:
        if not self.wait(0.0):
            os.kill(self.pid, number)


def _keep_statuses() -> None:
    """Let the kernel keep the exit statuses of children, as it does unless SIGCHLD is ignored.

    A process that was started with SIGCHLD ignored would lose them.
    """
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        with suppress(ValueError):  # only the main thread can change it
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _live(
    command: Sequence[str],
    environment: Mapping[str, str],
    keep_open: set[int],
    output: int | None,
    errors: int,
) -> NoReturn:
    """Run a command in a forked process, and end the process like the end of an interpreter.

    Nothing of the process that was forked may run here, such as the end of its `with` blocks.
    """
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        atexit._clear()
        gc.freeze()  # what is shared is not looked through, so its memory stays shared
        os.setsid()
        _name_process(command[0])
        _open_streams(output, errors, keep_open)
        os.environ.update(environment)
        status = _status_of(command)
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def _name_process(name: str) -> None:
    """Name this process for `ps` and `top`: its command line is still that of its parent."""
    try:
        with open("/proc/self/comm", "w") as file:
            file.write(name)
    except OSError:
        pass


def _open_streams(output: int | None, errors: int, keep_open: set[int]) -> None:
    """Open the standard streams, and close all other files except those to keep."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null if output is None else output, STDOUT)
    os.dup2(errors, STDERR)
    below = FIRST_FREE
    for descriptor in [*sorted(keep_open), os.sysconf("SC_OPEN_MAX")]:
        os.closerange(below, descriptor)
        below = descriptor + 1
    sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
    sys.stdout, sys.stderr = _unbuffered(STDOUT, "strict"), _unbuffered(STDERR, "backslashreplace")


def _unbuffered(descriptor: int, errors: str) -> io.TextIOWrapper:
    """Return a text stream that writes at once: what a killed process printed is not lost."""
    raw = open(descriptor, "wb", buffering=0)  # noqa: SIM115
    return io.TextIOWrapper(raw, encoding="utf-8", errors=errors, write_through=True)


def _status_of(command: Sequence[str]) -> int:
    """Run a command of hpcosim, and return its exit status."""
    sys.argv = ["hpcosim", *command]
    try:
        import_module(f"{COMMAND}.main").main()
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
            return 1
        return end.code or 0
    return 0
