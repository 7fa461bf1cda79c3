"""The two processes of a run, and the eye kept on them."""

from __future__ import annotations

import json
import os
import queue
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from hpcosim_scenarios.errors import RunError, ScenarioError
from hpcosim_scenarios.running.progress import Report, ignore
from hpcosim_server.service.service import CLIENT_LEFT

Wire = Literal["ipc", "tcp"]
OURS = (sys.executable, "-m", "hpcosim_cli")

BAD_INPUT = 2  # the exit status of `hpcosim` for it
SEEN_FROM_HERE_S = 86400.0  # for what this process sees better than the scheduler does
STOP_S = 600.0  # for the server to write what it has; a long log takes its time
LAST_WORDS_S = 10.0  # for the one process to end after the other


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
        out: the results folder.
        transport: what the wire is made of; a Unix socket or TCP on the loopback.
        server_options: more arguments for `hpcosim serve`.
        scheduler_options: more arguments for `hpcosim schedule`.
        report: told now and then how far it has got.

    Returns:
        The metrics.

    Raises:
        RunError: a process failed; what was recorded is in the results folder.
        ScenarioError: the server can't use the scenario or its workload.
    """
    with tempfile.TemporaryDirectory(prefix="hpcosim-") as scratch:
        address = f"ipc://{scratch}/server.sock" if transport == "ipc" else _free_tcp_address()
        serve = [*OURS, "serve", str(scenario), "--bind", address, "--once", "--out", str(out)]
        # Both start at once; the scheduler waits while the server reads its log, however long,
        # for whether it lives is seen from here.
        schedule = [*OURS, "schedule", scheduler, "--connect", address]
        schedule += ["--hello-s", str(SEEN_FROM_HERE_S), "--give-up-s", str(SEEN_FROM_HERE_S)]
        with (
            _process([*serve, *server_options]) as server,
            _process([*schedule, *scheduler_options]) as client,
        ):
            _watch(server, client, _Log(server), report)
    return _metrics(out)


def _free_tcp_address() -> str:
    """Return a loopback address nobody listens at; should another be faster, `serve` says so."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def _watch(
    server: subprocess.Popen[str], client: subprocess.Popen[str], log: _Log, report: Report
) -> None:
    """Follow the run until both processes are over."""
    while server.poll() is None:
        for entry in log.entries():
            if entry.get("event") == "progress":
                report(entry["now_s"], entry["jobs_over"], entry["jobs"])
        if client.poll():
            words = _last_line(client)
            server.terminate()  # it writes what it has
            with suppress(subprocess.TimeoutExpired):
                server.wait(STOP_S)
            raise RunError(f"the scheduler failed: {words}")
    if server.returncode == BAD_INPUT:
        raise ScenarioError(log.reason())
    if server.returncode:
        _blame_a_client_that_left(client, log)
        raise RunError(log.reason() or f"the server died, status {server.returncode}")
    try:
        client.wait(LAST_WORDS_S)
    except subprocess.TimeoutExpired:
        raise RunError("the scheduler does not end, though the simulation has") from None
    if client.returncode:
        raise RunError(f"the scheduler failed: {_last_line(client)}")


def _blame_a_client_that_left(client: subprocess.Popen[str], log: _Log) -> None:
    """Raise RunError with the scheduler's own last words if it failed, and left the server first.

    It takes its leave before it ends, and the server may be over sooner than it is.
    """
    if log.reason() == CLIENT_LEFT:
        with suppress(subprocess.TimeoutExpired):
            client.wait(LAST_WORDS_S)
        if client.returncode:
            raise RunError(f"the scheduler failed: {_last_line(client)}")


class _Log:
    """The server's log, read by a thread, as a pipe can't be waited on together with others."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._reasons: list[str] = []
        self._thread = threading.Thread(target=self._read, args=(server,), daemon=True)
        self._thread.start()

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield what has come, waiting a little for the first."""
        wait_s = 0.05
        while True:
            try:
                entry = self._lines.get(timeout=wait_s)
            except queue.Empty:
                return
            if entry is None:
                return
            wait_s = 0.0
            yield entry

    def reason(self) -> str:
        """Return why the server failed, as far as it said."""
        self._thread.join(LAST_WORDS_S)
        return self._reasons[0] if self._reasons else ""

    def _read(self, server: subprocess.Popen[str]) -> None:
        assert server.stderr is not None
        for line in server.stderr:
            try:
                entry = json.loads(line)
            except ValueError:
                self._reasons.append(line.strip().removeprefix("error: "))
                continue
            if entry.get("level") in ("warning", "error") and "why" in entry:
                self._reasons.append(entry["why"])
            self._lines.put(entry)
        self._lines.put(None)


@contextmanager
def _process(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a process of ours that does not outlive the block."""
    process = subprocess.Popen(  # noqa: S603 - our own command, no shell
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,  # Ctrl-C is ours to pass on
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _last_line(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    lines = [line.strip() for line in process.stderr if line.strip()]
    if not lines:
        return f"{shlex.join(process.args)} died, status {process.returncode}"  # type: ignore[arg-type]
    return lines[-1].removeprefix("error: ")


def _metrics(out: Path) -> dict[str, int | float]:
    metrics: Mapping[str, int | float] = json.loads((out / "metrics.json").read_text())
    return dict(metrics)
