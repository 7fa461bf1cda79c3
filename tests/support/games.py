"""Sessions of servers of several processes, played step by step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from hpcosim_client import Connection, Timeouts, View
from hpcosim_protocol.keys import ClientKeys
from hpcosim_schedulers import make_policy
from support.processes import SOON_S, Processes, Server

EAGER = Timeouts(resend_s=0.2, reply_s=SOON_S, hello_s=SOON_S)
FILES = {"jobs.csv", "metrics.json", "nodes.csv", "run.json", "schedule.csv"}


class Game:
    """A session that is played step by step."""

    all: ClassVar[list[Game]] = []

    def __init__(
        self, server: Server, scenario: str = "small", keys: ClientKeys | None = None
    ) -> None:
        self.all.append(self)
        self.connection = Connection(server.address, EAGER, keys=keys)
        self.welcome = self.connection.hello(client="easy", scenario=scenario)
        self._view, self._policy = View(self.welcome.platform), make_policy("easy")

    @property
    def label(self) -> str:
        """The public label of the session."""
        return self.welcome.session[:8]

    def step(self, count: int = 1000) -> bool:
        """Decide so often, or to the end; return whether the simulation is over."""
        for _ in range(count):
            answer = self.connection.decide(self._view.decisions)
            if answer.ended:
                return True
            self._view.apply(answer.now_s, answer.events)
            self._policy(self._view)
        return False


@pytest.fixture(autouse=True)
def every_game_is_closed() -> Iterator[None]:
    """Close the connections of a test, also of one that failed."""
    yield
    while Game.all:
        Game.all.pop().connection.close()


def process_of(server: Server, name: str) -> int:
    """Return the number of the process that the log calls by a name."""
    started = [entry for entry in server.log("process_started") if entry["process"] == name]
    return int(started[-1]["pid"])


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process, MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@contextmanager
def new_server(folder: Path, where: Path, *options: str) -> Iterator[Server]:
    """A server of `small` and `long`."""
    processes = Processes(where)
    try:
        yield Server(
            processes, folder / "small.yaml", folder / "long.yaml", *options, out=where / "out"
        )
    finally:
        processes.end()


@pytest.fixture
def workers(folder: Path, tmp_path: Path) -> Iterator[Server]:
    """A server with workers."""
    with new_server(folder, tmp_path, "--workers", "3") as server:
        yield server
