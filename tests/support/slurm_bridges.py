"""Bridges to real clusters of this host, and schedulers of theirs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.processes import eventually
from support.slurm_cluster import SlurmCluster

HPCOSIM = (sys.executable, "-m", "hpcosim.cli")


@contextmanager
def bridge(
    cluster: SlurmCluster, folder: Path, *options: str, killed: bool = False
) -> Iterator[str]:
    """Run a bridge to a cluster until the end of the context, and yield its address.

    Args:
        cluster: the cluster.
        folder: folder of its journal, its log and its socket.
        options: further options of `hpcosim slurm`.
        killed: end it by SIGKILL.
    """
    address = f"ipc://{folder}/bridge"
    command = [*HPCOSIM, "slurm", "--bind", address, "--journal", str(folder / "journal")]
    with (folder / "log").open("ab") as log:
        before = (folder / "log").read_text().count("listening")
        process = subprocess.Popen(
            [*command, "--poll-s", "0.2", *options], env=cluster.environment, stderr=log
        )
        try:
            eventually(lambda: (folder / "log").read_text().count("listening") > before)
            yield address
        finally:
            (process.kill if killed else process.terminate)()
            status = process.wait(10.0)
            assert killed or status == 0, (folder / "log").read_text()


@contextmanager
def scheduler(name: str, address: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a scheduler of the SDK until the end of the context."""
    command = [*HPCOSIM, "schedule", name, "--connect", address]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def report_of(folder: Path) -> dict[str, object]:
    """Return the figures of the journal of a bridge."""
    command = [*HPCOSIM, "slurm", "report", str(folder / "journal"), "--json"]
    done = subprocess.run(command, capture_output=True, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found
