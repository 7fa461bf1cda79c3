"""The two processes of a run, and the watch over them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from hpcosim_scenarios.errors import RunError, ScenarioError
from hpcosim_scenarios.running.progress import Report, ignore
from hpcosim_scenarios.running.status import StatusReader
from hpcosim_scenarios.running.transport import Wire
from hpcosim_server.errors import ResultsError
from hpcosim_server.service.status import Failure

OURS = (sys.executable, "-m", "hpcosim_cli")

LOOK_EVERY_S = 0.05
SEEN_FROM_HERE_S = 86400.0  # for what this process sees better than the scheduler does
STOP_S = 600.0  # for the server to write what it has; a long log takes its time
LAST_WORDS_S = 10.0  # for one process to end after the other
WORDS = 20  # lines kept of what a process says


def run_processes(
    scenario: Path,
    scheduler: str,
    out: Path,
    transport: Wire = "ipc",
    *,
    server_options: Sequence[str] = (),
    scheduler_options: Sequence[str] = (),
    report: Report = ignore,
) -> dict[str, int | float]:
    """Run a scenario with simulator and scheduler in processes of their own.

    Args:
        scenario: its file.
        scheduler: the policy's name.
        out: the results folder, which `folder.prepare` has accepted.
        transport: what the wire is made of; a Unix socket or TCP on the loopback.
        server_options: more arguments for `hpcosim serve`.
        scheduler_options: more arguments for `hpcosim schedule`.
        report: told now and then how far it has got.

    Returns:
        The metrics.

    Raises:
        RunError: a process failed; what was recorded is in the results folder.
        ScenarioError: the server can't use the scenario or its workload.
        ResultsError: the results cannot be written; it has the metrics.
    """
    with tempfile.TemporaryDirectory(prefix="hpcosim-") as scratch:
        address = f"ipc://{scratch}/server.sock" if transport == "ipc" else _free_tcp_address()
        serve = ["serve", str(scenario), "--bind", address, "--once", "--out", str(out)]
        serve.append("--force")  # the caller has checked the folder
        # Both start at once; the scheduler waits while the server reads its log, however long,
        # for whether it lives is seen from here.
        schedule = ["schedule", scheduler, "--connect", address]
        for timeout in ("--hello-timeout-s", "--timeout-s"):
            schedule += [timeout, str(SEEN_FROM_HERE_S)]
        with (
            _server([*serve, *server_options]) as (server, status),
            _Process("the scheduler", [*schedule, *scheduler_options]) as client,
        ):
            _watch(server, status, client, report)
    metrics: dict[str, int | float] = json.loads((out / "metrics.json").read_text())
    return metrics


def _free_tcp_address() -> str:
    """Return a free loopback address. If another program takes it first, the server fails."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


class _Process:
    """A process of ours, which does not outlive the block that it is the context of.

    Its standard error is read as it comes, so that it never blocks on it.

    Args:
        name: what errors call it.
        command: the arguments of `hpcosim`.
        keep_open: file descriptors that it inherits.
    """

    def __init__(self, name: str, command: Sequence[str], keep_open: Sequence[int] = ()) -> None:
        self._name = name
        self.popen = subprocess.Popen(  # noqa: S603 - our own command, no shell
            [*OURS, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            pass_fds=keep_open,
            start_new_session=True,  # Ctrl-C is ours to pass on
        )
        self._words: deque[str] = deque(maxlen=WORDS)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def fault(self) -> RunError:
        """Return the error of a process that failed: its last words, or how it died."""
        self._listener.join(LAST_WORDS_S)
        status = self.popen.returncode
        if self._words and status > 0:
            return RunError(f"{self._name} failed: {self._words[-1].removeprefix('error: ')}")
        return RunError(f"{self._name} died, status {status}")

    def stop(self) -> None:
        """End it, if it has not ended."""
        if self.popen.poll() is None:
            self.popen.terminate()
            try:
                self.popen.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        self._listener.join(LAST_WORDS_S)

    def _listen(self) -> None:
        assert self.popen.stderr is not None
        with self.popen.stderr as lines:
            self._words.extend(line.strip() for line in lines if line.strip())


@contextmanager
def _server(command: Sequence[str]) -> Iterator[tuple[_Process, StatusReader]]:
    """Start a server that does not outlive the block, and yield its status, too."""
    reading, writing = os.pipe()
    try:
        command = [*command, "--status-fd", str(writing)]
        with _Process("the server", command, (writing,)) as server:
            os.close(writing)
            writing = -1
            yield server, StatusReader(reading)
    finally:
        os.close(reading)
        if writing != -1:
            os.close(writing)


def _watch(server: _Process, status: StatusReader, client: _Process, report: Report) -> None:
    """Follow the run until both processes are over.

    Raises:
        RunError, ScenarioError, ResultsError: as `run_processes`.
    """
    while server.popen.poll() is None:
        progress = status.read(LOOK_EVERY_S)
        if progress is not None:
            report(progress.now_s, progress.jobs_over, progress.jobs)
        if status.is_over:
            with suppress(subprocess.TimeoutExpired):
                server.popen.wait(LOOK_EVERY_S)
        if client.popen.poll():
            server.stop()  # it writes what it has
            raise client.fault()
    status.read(0.0)
    if server.popen.returncode:
        raise _fault(server, status.failure, client)
    try:
        client.popen.wait(LAST_WORDS_S)
    except subprocess.TimeoutExpired:
        raise RunError("the scheduler does not end, though the simulation has") from None
    if client.popen.returncode:
        raise client.fault()


def _fault(server: _Process, failure: Failure | None, client: _Process) -> Exception:
    """Return the error of a server that failed; a scheduler that failed first is to blame."""
    if failure is None:
        return server.fault()
    if failure.cause == "bad_input":
        return ScenarioError(failure.why)
    if failure.cause == "results_not_written":
        error = ResultsError(failure.why)
        error.metrics = failure.metrics
        return error
    if failure.cause == "client_left":
        # It says goodbye before it ends, and the server may be over sooner than it is.
        with suppress(subprocess.TimeoutExpired):
            client.popen.wait(LAST_WORDS_S)
        if client.popen.returncode:
            return client.fault()
    return RunError(failure.why)
