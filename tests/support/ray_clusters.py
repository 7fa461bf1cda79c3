"""Ray clusters of several nodes on this machine."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.processes import eventually

RAY = ("-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats", "--num-cpus=1")
FOLDERS = ("protocol", "server", "scheduler_client", "scenarios", "tests")


class RayNodes:
    """A cluster of nodes with one CPU each.

    Args:
        folder: folder of the session; its path must be short.
        python: interpreter of the workers.
        with_hpcosim: whether workers can import hpcosim.

    Attributes:
        address: `HOST:PORT` of the head node.
    """

    def __init__(self, folder: Path, python: str, *, with_hpcosim: bool) -> None:
        path = sys.path if with_hpcosim else []
        self._environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
        self._folder, self._python = folder, python
        self._nodes: list[subprocess.Popen[bytes]] = []
        self._start("--head", "--port=0", "--include-dashboard=false", f"--temp-dir={folder}")
        file = folder / "ray_current_cluster"
        eventually(lambda: self._started(file))
        self.address = file.read_text().strip()

    def add(self) -> None:
        """Add a node, and wait until it is a member."""
        log = self._start(f"--address={self.address}")
        eventually(lambda: b"Ray runtime started" in log.read_bytes())

    def kill_last(self) -> None:
        """Kill all processes of the node that was added last."""
        node = self._nodes.pop()
        os.killpg(node.pid, signal.SIGKILL)
        node.wait()

    def stop(self) -> None:
        """Kill all nodes."""
        while self._nodes:
            self.kill_last()

    def _start(self, *options: str) -> Path:
        path = self._folder / f"node-{len(self._nodes)}.log"
        with path.open("wb") as log:
            self._nodes.append(
                subprocess.Popen(
                    [self._python, *RAY, *options],
                    env=self._environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
        return path

    def _started(self, file: Path) -> bool:
        ended = self._nodes[-1].poll()
        assert ended is None, (self._folder / "node-0.log").read_text()
        return file.exists() and bool(file.read_text().strip())


@contextmanager
def ray_nodes(
    count: int, *, python: str = sys.executable, with_hpcosim: bool = True
) -> Iterator[RayNodes]:
    """Start a cluster whose users have a secret token; kill it at the end.

    Args:
        count: number of nodes.
        python: interpreter of the workers.
        with_hpcosim: whether workers can import hpcosim.
    """
    variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    before = dict(os.environ)
    os.environ.update(variables)
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    try:
        nodes = RayNodes(folder, python, with_hpcosim=with_hpcosim)
        try:
            for _ in range(count - 1):
                nodes.add()
            yield nodes
        finally:
            nodes.stop()
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """Return the address of a Ray cluster of two nodes, for the tests that leave it as it is."""
    pytest.importorskip("ray", reason="the Ray executor needs the extra ray")
    with ray_nodes(2) as nodes:
        yield nodes.address
