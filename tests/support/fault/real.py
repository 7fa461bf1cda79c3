"""Runs of real processes: swarms of schedulers, and the results of their sessions."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.paths import ROOT
from support.processes import Processes, Results, Server, output, read

LONG_S = 500.0
"""Timeout of a swarm of clients, s."""


def alone(scenario: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return the results of an undisturbed run."""
    processes = Processes(tmp_path_factory.mktemp("undisturbed"))
    try:
        server = Server(processes, scenario, out=tmp_path_factory.mktemp("out"))
        (session,) = swarm(processes, server.address, clients=1)["sessions"]
        return server.results(session)
    finally:
        processes.end()


def start_swarm(
    processes: Processes, address: str, **options: float | Path
) -> subprocess.Popen[str]:
    """Start schedulers as processes; see `support.fault.swarm`."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    return processes.start_command(
        [sys.executable, "-m", "support.fault.swarm", address, *words],
        cwd=ROOT / "tests",
        stdout=subprocess.PIPE,
    )


def end_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a swarm, which must have met no error."""
    out, _ = output(process, LONG_S)
    assert process.returncode == 0
    answer: dict[str, Any] = json.loads(out)
    assert answer["errors"] == []
    return answer


def swarm(processes: Processes, address: str, **options: float | Path) -> dict[str, Any]:
    """Run schedulers to their ends."""
    return end_of(start_swarm(processes, address, **options))


def memory_mb(pid: int) -> float:
    """Return the largest memory that a process had so far, MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def check_results(server: Server, sessions: list[str], undisturbed: Results) -> None:
    """Check that each session has the results of an undisturbed run."""
    assert len(set(sessions)) == len(sessions)
    for session in sessions:
        assert of_run(server.results(session)) == of_run(undisturbed)


def of_run(results: Results) -> Results:
    """Return results without the state of the source code, which may change meanwhile."""
    run = json.loads(results["run.json"])
    del run["git"]
    return results | {"run.json": json.dumps(run).encode()}


def has_results(out: Path, pattern: str, expected: Results) -> bool:
    """Return whether a session has these results; those of a stopped session are replaced."""
    for folder in out.glob(pattern):
        with suppress(FileNotFoundError, IsADirectoryError):  # they are being replaced
            if (folder / "run.json").exists() and of_run(read(folder)) == of_run(expected):
                return True
    return False


def open_journals(out: Path) -> int:
    """Return the number of sessions that are open now."""
    return len(list((out / ".journal" / "open").glob("*.journal")))
