"""A service with journals on a simulated disk, and a scheduler beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpcosim_client import View
from hpcosim_protocol import (
    Bye,
    Decisions,
    Error,
    Events,
    Hello,
    ServerMessage,
    SimulationEnded,
    Welcome,
    decode_server_message,
    encode,
)
from hpcosim_scenarios.running.library import Library
from hpcosim_schedulers import make_policy
from hpcosim_server.journal.journal_file import SyncPolicy
from hpcosim_server.journal.storage import Disk
from hpcosim_server.journal.store import Journals
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.recovery import Restored, restore
from hpcosim_server.service.service import Service
from support.memory_disk import MemoryDisk

JOURNALS = Path("/journals")
SCENARIO = """
name: small
seed: 3
platform:
  nodes:
    - count: 3
      processors: [{{cores: 4, static_w: 100, dynamic_w: 5, idle_fraction: 0.5}}]
workload:
  synthetic:
    {{model: poisson, jobs: {jobs}, mean_interarrival_s: 90, cores: [1, 8], run_s: [10, 900]}}
scheduler: {{name: easy}}
"""


class SharedDisk(Disk):
    """The real file system, for servers that are killed and started again in one process."""

    def lock(self, folder: Path) -> None:
        """Let the next server have the folder, too."""


class JournaledServer:
    """A service that can be killed and started again on the same disk.

    Args:
        folder: an empty folder for the scenario and the results.
        jobs: number of jobs of the scenario.
        sync: when journals are synchronised.
        on_disk: whether the journals are real files, in `folder/journals`.
    """

    def __init__(
        self, folder: Path, jobs: int = 12, sync: SyncPolicy = "interval", *, on_disk: bool = False
    ) -> None:
        self._journals = folder / "journals" if on_disk else JOURNALS
        self._storage = SharedDisk() if on_disk else None
        self.scenario = folder / "small.yaml"
        self.scenario.write_text(SCENARIO.format(jobs=jobs))
        self.out = folder / "out"
        self.disk = MemoryDisk()
        self.clock_s = 0.0
        self._sync = sync
        self._read = ""
        self.limits = Limits()
        self.options: dict[str, Any] = {}
        self.start()

    def start(self) -> None:
        """Start the server without restoring anything."""
        clock: Callable[[], float] = lambda: self.clock_s  # noqa: E731
        self.journals = Journals(self._journals, self._sync, self._storage or self.disk, clock)
        text = self.scenario.read_text()
        if text != self._read:
            self._read, self._opens = text, Library([self.scenario]).open
        self.service = Service(
            self._opens, self.limits, self.out, clock=clock, journals=self.journals, **self.options
        )

    def pass_time(self, duration_s: float) -> None:
        """Let time pass in steps; a clock that jumps is a server that was stopped."""
        until_s = self.clock_s + duration_s
        while self.clock_s < until_s:
            self.clock_s = min(until_s, self.clock_s + 1.0)
            self.service.tidy()

    def kill(self) -> Restored:
        """Kill the server, start it again, and restore its sessions."""
        self.disk.kill()
        self.start()
        return restore(self.service, self.journals)

    def send(self, message: Hello | Decisions | Bye) -> ServerMessage:
        """Return the reply to a message."""
        return decode_server_message(self.service.answer(encode(message)))

    def results(self, session: str) -> dict[str, bytes]:
        """Return the results of a session by file name."""
        self.service.tidy()
        (folder,) = self.out.glob(f"*-{session[:8]}")
        return {file.name: file.read_bytes() for file in folder.iterdir()}


class JournaledScheduler:
    """A scheduler that repeats its last request, and goes on after its server was restarted."""

    def __init__(self, server: JournaledServer, policy: str = "easy", **hello: Any) -> None:
        self._server = server
        self._policy = make_policy(policy)
        self.hello = Hello(versions=[1], client=policy, **hello)
        welcome = server.send(self.hello)
        assert isinstance(welcome, Welcome), welcome
        self.session = welcome.session
        self.view = View(welcome.platform)
        self.last: Decisions | None = None
        self.reply = b""
        self.metrics: dict[str, int | float] | None = None

    @property
    def ended(self) -> bool:
        """Whether the simulation is over."""
        return self.metrics is not None

    def step(self) -> None:
        """Decide once."""
        view = self.view
        seq = self.last.seq + 1 if self.last else 1
        wake_on = None if view.wake_on is None else sorted(view.wake_on)
        self.last = Decisions(
            session=self.session, seq=seq, decisions=list(view.decisions), wake_on=wake_on
        )
        self.reply = self._server.service.answer(encode(self.last))
        answer = decode_server_message(self.reply)
        if isinstance(answer, SimulationEnded):
            self.metrics = answer.metrics
            return
        assert isinstance(answer, Events), answer
        view.apply(answer.now_s, answer.events)
        self._policy(view)

    def repeat(self) -> bytes:
        """Send the last request again and return the reply."""
        assert self.last is not None
        return self._server.service.answer(encode(self.last))

    def finish(self) -> dict[str, bytes]:
        """Decide until the end, and return the results."""
        while not self.ended:
            self.step()
        return self._server.results(self.session)


def error_of(reply: bytes) -> Error:
    """Return the error in a reply."""
    answer = decode_server_message(reply)
    assert isinstance(answer, Error), answer
    return answer
