"""Small Slurm clusters of this host for tests, and what tests do with them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.paths import SCENARIOS
from support.processes import alive, eventually

SOON_S = 30.0
"""Timeout for what Slurm does within seconds, s."""
CLUSTER = SCENARIOS / "slurm" / "cluster.py"


class SlurmCluster:
    """A running cluster.

    Args:
        folder: its files.
        process: the script that has started it.

    Attributes:
        folder: its files; `bridge` in it is where its programs tell a bridge of changes.
        environment: environment of commands that use it.
    """

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.folder = folder
        self._process = process
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def run(self, *command: str, text: str = "") -> str:
        """Run a command that succeeds, and return its output.

        Args:
            command: the command.
            text: its standard input.
        """
        done = subprocess.run(
            command,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=SOON_S,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def submit(self, *options: str, sleep_s: float = 0.0, command: str = "") -> int:
        """Submit a job that sleeps, and return its number.

        Args:
            options: those of `sbatch`.
            sleep_s: its run time, s.
            command: what it does instead; empty: it sleeps.
        """
        place = ["--parsable", "--output=/dev/null", "--chdir=/"]
        script = f"#!/bin/sh\n{command or f'exec sleep {sleep_s}'}\n"
        return int(self.run("sbatch", *place, *options, text=script))

    def state(self, job: int | str) -> str:
        """Return Slurm's word for the state of a job or a task, such as `RUNNING`."""
        return self.run("squeue", "-h", "-t", "all", "-j", str(job), "-o", "%T").strip()

    def wait_for(self, job: int | str, state: str) -> None:
        """Wait until a job has a state."""
        eventually(lambda: self.state(job) == state, within_s=SOON_S)

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End slurmctld, or the daemon of the node of this name.

        Args:
            name: `slurmctld` or the name of a node.
            number: the signal. slurmctld saves its state at SIGTERM, and otherwise every 5 s.
        """
        path = self.folder / f"{name if name == 'slurmctld' else f'slurmd-{name}'}.pid"
        pid = int(path.read_text())
        os.kill(pid, number)
        eventually(lambda: not alive(pid), within_s=SOON_S)

    def start(self, name: str) -> None:
        """Start slurmctld, or the daemon of the node of this name, again."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()

    def clear(self) -> None:
        """Cancel all jobs, and wait until all nodes are idle."""
        self.run("scancel", "--user", "root")
        eventually(
            lambda: set(self.run("sinfo", "-h", "-N", "-o", "%T").split()) == {"idle"},
            within_s=SOON_S,
        )


def skip_without_slurm_and_root() -> None:
    """Skip a test where no cluster can be started, or none should be (`HPCOSIM_SLURM=off`)."""
    if os.environ.get("HPCOSIM_SLURM") == "off":
        pytest.skip("HPCOSIM_SLURM=off: no cluster is wanted here")
    if os.getuid() != 0:
        pytest.skip("a cluster of this host needs root")
    if shutil.which("slurmctld", path=os.environ["PATH"] + ":/usr/sbin") is None:
        pytest.skip("Slurm is not installed; .ci/slurm.sh COMMAND installs it")


def skip_without_slurmdbd() -> None:
    """Skip a test where no cluster with accounting can be started."""
    skip_without_slurm_and_root()
    path = os.environ["PATH"] + ":/usr/sbin"
    missing = [name for name in ("slurmdbd", "mariadbd") if shutil.which(name, path=path) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not found: apt-get install slurmdbd mariadb-server")


@contextmanager
def slurm_cluster(*options: str) -> Iterator[SlurmCluster]:
    """Start a cluster that ends with the context; skip the test where there can be none.

    Args:
        options: those of `scenarios/slurm/cluster.py`.
    """
    skip_without_slurm_and_root()
    # Its standard input ends with this process, and the cluster with its standard input.
    with subprocess.Popen(
        [sys.executable, CLUSTER, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        ready = process.stdout.readline()
        assert ready, process.stderr.read()
        try:
            yield SlurmCluster(Path(ready.strip().partition("=")[2]).parent, process)
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def ordinary_cluster() -> Iterator[SlurmCluster]:
    """An ordinary cluster of 8 nodes with one CPU each, and 5 licences of `matlab`."""
    with slurm_cluster("--nodes", "8", "--add", "Licenses=matlab:5") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def placed_cluster() -> Iterator[SlurmCluster]:
    """A cluster of 8 nodes with one CPU each for the modes hold and place."""
    with slurm_cluster("--nodes", "8", "--for", "place") as cluster:
        yield cluster
