"""Transports `ipc` and `tcp`: simulator and scheduler in two processes, started and watched."""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import select
import signal
import socket
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol, Self, TextIO

from hpcosim_scenarios.errors import RunError, ScenarioError
from hpcosim_scenarios.running import Wire
from hpcosim_scenarios.running.in_process import Report, ignore, signal_of
from hpcosim_scenarios.running.status import StatusReader, WatchedRun
from hpcosim_server.service.status import Failure
from hpcosim_sim.errors import ResultsError

if TYPE_CHECKING:
    import subprocess


POLL_EVERY_S = 0.05
CLIENT_TIMEOUT_S = 86400.0  # long: this process notices first if the server ends
STOP_TIMEOUT_S = 600.0  # for the server to write its results, which may be large
EXIT_TIMEOUT_S = 10.0  # for one process to end after the other
LINES_KEPT = 20  # of the standard error of a process
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}  # shows what a policy prints at once, also if it is killed


COMMAND = "hpcosim.cli"
STDOUT, STDERR = 1, 2  # file descriptors: `sys.stderr` of a notebook has none
LOST = 255
"""Exit status of a child whose own is not known."""
FIRST_FREE = 3  # after the standard file descriptors


def run_processes(
    scenario: Path,
    scheduler: str,
    out: Path,
    transport: Wire = "ipc",
    *,
    server_options: Sequence[str] = (),
    scheduler_options: Sequence[str] = (),
    settings: str = "{}",
    report: Report = ignore,
    watched: WatchedRun | None = None,
    fork: bool = True,
) -> dict[str, int | float]:
    """Run a scenario with the simulator and the scheduler in separate processes.

    Args:
        scenario: the scenario's file.
        scheduler: name of the job scheduler.
        out: the results folder, which `folder.prepare` has accepted.
        transport: `ipc`: a Unix socket; `tcp`: TCP on the loopback interface.
        server_options: additional arguments of `hpcosim serve`.
        scheduler_options: additional arguments of `hpcosim schedule`.
        settings: settings of the job scheduler in JSON, which may be too long for an argument.
        report: called with the progress about four times a second.
        watched: how people watch the run; None: it is not watched.
        fork: whether the processes may be forks of this one, see `child.start`.

    Returns:
        The metrics.

    Raises:
        RunError: a process failed. The results up to then are in the results folder.
        ScenarioError: the scenario or its workload is invalid.
        ResultsError: the results cannot be written; it has the metrics.
    """
    with tempfile.TemporaryDirectory(prefix="hpcosim-") as scratch:
        address = f"ipc://{scratch}/server.sock" if transport == "ipc" else _free_tcp_address()
        serve = ["serve", str(scenario), "--bind", address, "--once", "--out", str(out)]
        serve.append("--force")  # the caller has checked the folder
        serve += [
            "--set",
            "limits.results_retry_s=0",
        ]  # the user waits for the error and the metrics
        # Both start together. The scheduler waits while the server reads a log, however long:
        # this process notices if the server ends.
        schedule = ["schedule", scheduler, "--connect", address]
        for command in (serve, schedule):  # they end if this process is killed
            command += ["--parent", str(os.getpid())]
        for timeout in ("--hello-timeout-s", "--timeout-s"):
            schedule += [timeout, str(CLIENT_TIMEOUT_S)]
        if settings != "{}":
            file = Path(scratch) / "settings.json"
            file.write_text(settings)
            schedule += ["--settings", str(file)]
        watched = watched or WatchedRun()
        serve += [*server_options, *watched.server_options]
        with _server(serve, watched.environment, fork=fork) as (server, status):
            if watched.server_options:
                server.read_errors()
                watched.before_scheduler(status)
            arguments = [*schedule, *scheduler_options]
            with _Process(
                "the scheduler", arguments, environment=UNBUFFERED, prints=True, fork=fork
            ) as client:
                for process in (server, client):  # after both have started: threads forbid a fork
                    process.read_errors()
                try:
                    _watch(server, status, client, report)
                except KeyboardInterrupt as stopped:
                    server.stop(signal_of(stopped))  # before the client: `run.json` names it
                    raise
    metrics: dict[str, int | float] = json.loads((out / "metrics.json").read_text())
    return metrics


def _free_tcp_address() -> str:
    """Return a free loopback address. The server fails if another program takes it first."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


class _Process:
    """A process with a command of hpcosim. It ends at the end of the `with` block at the latest."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        keep_open: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        *,
        prints: bool = False,
        fork: bool = True,
    ) -> None:
        self._name = name
        self.child = start(command, environment or {}, keep_open, prints=prints, fork=fork)
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._reader: threading.Thread | None = None

    def read_errors(self) -> None:
        """Start a thread that reads standard error, so that the process never blocks on it."""
        if self._reader is None:
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def error(self) -> RunError:
        """Return the error of a process that failed: its last line, or its exit status."""
        self._all_read()
        status = self.child.returncode or 0
        if self._lines and status > 0:
            return RunError(f"{self._name} failed: {self._lines[-1].removeprefix('error: ')}")
        return RunError(f"{self._name} ended with status {status}")

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the process by a signal if it runs."""
        if not self.child.wait(0.0):
            self.read_errors()
            self.child.send(number)
            if not self.child.wait(STOP_TIMEOUT_S):
                self.child.send(signal.SIGKILL)
                self.child.wait()
        self._all_read()

    def _all_read(self) -> None:
        self.read_errors()
        assert self._reader is not None
        self._reader.join(EXIT_TIMEOUT_S)

    def _read(self) -> None:
        with self.child.errors as lines:
            self._lines.extend(line.strip() for line in lines if line.strip())


@contextmanager
def _server(
    command: Sequence[str], environment: Mapping[str, str], *, fork: bool
) -> Iterator[tuple[_Process, StatusReader]]:
    """Start a server for the `with` block; yield the process and its status."""
    reading, writing = os.pipe()
    try:
        command = [*command, "--set", f"status_fd={writing}"]
        with _Process("the server", command, (writing,), environment, fork=fork) as server:
            os.close(writing)
            writing = -1
            yield server, StatusReader(reading)
    finally:
        os.close(reading)
        if writing != -1:
            os.close(writing)


def _watch(server: _Process, status: StatusReader, client: _Process, report: Report) -> None:
    """Wait until both processes have ended, and report progress."""
    while not server.child.wait(0.0):
        progress = status.read(POLL_EVERY_S)
        if progress is not None:
            report(progress.now_s, progress.jobs_over, progress.jobs)
        if status.is_over:
            server.child.wait(POLL_EVERY_S)
        if client.child.wait(0.0) and client.child.returncode:
            server.stop()  # it writes the results so far
            status.read(0.0)
            if status.failure is not None and status.failure.cause == "results_not_written":
                raise _error_of(server, status.failure, client)  # the client failed by it
            raise client.error()
    status.read(0.0)
    if server.child.returncode or status.failure:  # a server stopped by a signal exits with 0
        raise _error_of(server, status.failure, client)
    if not client.child.wait(EXIT_TIMEOUT_S):
        raise RunError("the simulation has ended, but the scheduler process has not")
    if client.child.returncode:
        raise client.error()


def _error_of(server: _Process, failure: Failure | None, client: _Process) -> Exception:
    """Return the error of a server that failed, or of the scheduler that failed before it."""
    if failure is None:
        return server.error()
    if failure.cause == "bad_input":
        return ScenarioError(failure.why)
    if failure.cause == "results_not_written":
        error = ResultsError(failure.why)
        error.metrics = failure.metrics
        return error
    # The client says goodbye before it ends, so the server may end first.
    left = failure.cause == "client_left" and client.child.wait(EXIT_TIMEOUT_S)
    if left and client.child.returncode:
        return client.error()
    return RunError(failure.why)


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
