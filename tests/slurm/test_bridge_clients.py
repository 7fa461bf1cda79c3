"""Schedulers that were written for the simulator, over sockets, on a cluster in memory."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcosim_slurm.bridge.bridge import Bridge
from support.bridges import served
from support.fake_cluster import FakeCluster
from support.other_languages import client_in
from support.paths import ROOT

pytestmark = pytest.mark.slow
JOBS = 8
TIMEOUT_S = 20.0


def python(policy: str, address: str, folder: Path) -> list[str]:
    """Return the command of a policy of the Python SDK."""
    return [sys.executable, "-m", "hpcosim.cli", "schedule", policy, "--connect", address]


def minimal(_: str, address: str, folder: Path) -> list[str]:
    """Return the command of the minimal client."""
    return [sys.executable, str(ROOT / "scheduler_client" / "minimal.py"), address]


def in_c(_: str, address: str, folder: Path) -> list[str]:
    """Return the command of the client in C."""
    return [*client_in("c", folder), address]


@pytest.mark.parametrize(
    ("command", "policy", "transport"),
    [
        (python, "fcfs", "ipc"),
        (python, "easy", "tcp"),
        (python, "slurm", "ipc"),
        (minimal, "", "tcp"),
        (in_c, "", "ipc"),
    ],
    ids=["fcfs", "easy", "slurm", "minimal", "c"],
)
def test_a_scheduler_of_the_simulator_runs_all_jobs(
    command: Callable[[str, str, Path], list[str]],
    policy: str,
    transport: str,
    tmp_path: Path,
) -> None:
    """Every job that is submitted runs in the shadow until its real run time is over."""
    address = f"ipc://{tmp_path}/s" if transport == "ipc" else f"tcp://127.0.0.1:{free_port()}"
    cluster = FakeCluster(nodes=4)
    with served(cluster, address, factor=20.0) as bridge:
        client = subprocess.Popen(
            command(policy, address, tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            wait_for(lambda: bridge.course.session is not None, client)
            for at in range(JOBS):
                cluster.submit(cpus=1 + at % 2, run_s=5.0 + at)
            wait_for(lambda: jobs_over(bridge) == JOBS, client)
        finally:
            client.kill()
            client.communicate()
        recording = bridge.course.session.world.engine.recording  # type: ignore[union-attr]
        assert {recording.state[row] for row in range(JOBS)} == {2}  # completed


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def jobs_over(bridge: Bridge) -> int:
    """Return the number of jobs that are over in the shadow."""
    session = bridge.course.session
    return 0 if session is None else session.world.engine.recording.over


def wait_for(condition: Callable[[], bool], client: subprocess.Popen[bytes]) -> None:
    """Wait for a condition; fail if the client ends before."""
    until_s = time.monotonic() + TIMEOUT_S
    while not condition():
        if client.poll() is not None:
            raise AssertionError(client.communicate()[0].decode())
        assert time.monotonic() < until_s, "timeout"
        time.sleep(0.02)
