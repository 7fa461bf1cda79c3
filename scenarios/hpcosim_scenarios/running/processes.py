"""Transports `ipc` and `tcp`: simulator and scheduler in two processes, started and watched."""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from hpcosim_scenarios.errors import RunError, ScenarioError
from hpcosim_scenarios.running.child import start
from hpcosim_scenarios.running.in_process import signal_of
from hpcosim_scenarios.running.progress import Report, ignore
from hpcosim_scenarios.running.status import StatusReader
from hpcosim_scenarios.running.transport import Wire
from hpcosim_scenarios.running.watched import WatchedRun
from hpcosim_server.service.status import Failure
from hpcosim_sim.errors import ResultsError

POLL_EVERY_S = 0.05
CLIENT_TIMEOUT_S = 86400.0  # long: this process notices first if the server ends
STOP_TIMEOUT_S = 600.0  # for the server to write its results, which may be large
EXIT_TIMEOUT_S = 10.0  # for one process to end after the other
LINES_KEPT = 20  # of the standard error of a process
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}  # shows what a policy prints at once, also if it is killed


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
    """A process with a command of hpcosim. It ends at the end of the `with` block at the latest.

    Args:
        name: name in error messages.
        command: the arguments of `hpcosim`.
        keep_open: file descriptors that the process inherits.
        environment: additional environment variables.
        prints: whether its standard output, such as what a user's policy prints, becomes this
            process's standard error; otherwise it is dropped.
        fork: whether it may be a fork of this process.
    """

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
    """Wait until both processes have ended, and report progress.

    Raises:
        RunError, ScenarioError, ResultsError: as `run_processes`.
    """
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
