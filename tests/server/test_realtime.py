"""Sessions in real time: the wall clock of the scheduler counts in the simulation."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from hpcosim_client import View
from hpcosim_protocol import Decisions, Events, Hello, Welcome, decode_server_message, encode
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library
from hpcosim_schedulers import make_policy
from hpcosim_server.service.held_replies import HELD
from hpcosim_server.service.pace import RealTime
from hpcosim_server.service.session import Opened
from support.journaled import JournaledServer

FACTOR = 100.0


class RealTimeServer(JournaledServer):
    """A server in real time with a clock of its own, and the session of a scheduler."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.options = {"realtime": FACTOR}
        self.disk.kill()
        self.start()
        welcome = self.send(Hello(versions=[1], held_replies=True))
        assert isinstance(welcome, Welcome)
        self.session = welcome.session
        assert welcome.options.realtime
        self.seq = 0

    def request(self, think_s: float = 0.0) -> bytes:
        """Send the next request after a time, wall-clock s; return the bytes or `HELD`."""
        self.clock_s += think_s
        self.seq += 1
        return self.service.answer(encode(Decisions(session=self.session, seq=self.seq)))

    def reply(self, think_s: float = 0.0) -> Events:
        """Send the next request, wait for its time, and return the reply."""
        data = self.request(think_s)
        if data == HELD:
            self.clock_s += self.service.held.wait_s()
            ((_, data),) = self.service.due()
        reply = decode_server_message(data)
        assert isinstance(reply, Events)
        return reply


@pytest.fixture
def server(tmp_path: Path) -> RealTimeServer:
    """Return a server with an open session."""
    return RealTimeServer(tmp_path)


def test_a_reply_is_sent_when_its_simulated_time_has_come(server: RealTimeServer) -> None:
    """Simulated time follows the wall clock by the factor."""
    began_s = server.clock_s
    for _ in range(5):
        reply = server.reply()
        assert reply.now_s == pytest.approx(FACTOR * (server.clock_s - began_s), abs=1e-6)


def test_the_time_of_the_scheduler_passes_in_the_simulation(server: RealTimeServer) -> None:
    """The time between a reply and the next request passes before the decisions."""
    before_s = server.reply().now_s
    reply = server.reply(think_s=2.0)
    assert reply.now_s >= before_s + 2.0 * FACTOR


def test_the_clock_starts_with_the_first_request(server: RealTimeServer, tmp_path: Path) -> None:
    """A scheduler that takes long to start does not miss the first jobs."""
    quick = RealTimeServer(tmp_path)
    assert server.reply(think_s=1000.0).now_s == quick.reply().now_s


def test_a_repeated_request_gets_the_same_reply(server: RealTimeServer) -> None:
    """The time of a copy of a request does not count."""
    server.reply()
    first = server.reply(think_s=1.0)
    server.clock_s += 5.0
    server.seq -= 1
    assert decode_server_message(server.request()) == first


def test_a_journal_restores_the_time_of_the_scheduler(server: RealTimeServer) -> None:
    """A restored session has the recorded times, and goes on without the time of the restart."""
    for _ in range(3):
        server.reply(think_s=1.5)
    before = server.reply(think_s=1.5)
    server.clock_s += 500.0
    server.options = {}  # the session stays in real time
    restored = server.kill()
    assert (restored.sessions, restored.refused) == (1, {})
    server.seq -= 1
    assert decode_server_message(server.request()) == before
    after = server.reply()
    undisturbed = before.now_s + FACTOR * 100.0
    assert before.now_s <= after.now_s < undisturbed
    assert server.reply(think_s=2.0).now_s >= after.now_s + 2.0 * FACTOR


@pytest.mark.parametrize("change", ["pause", "step", "change_speed"])
def test_viewers_cannot_change_the_pace(change: str) -> None:
    """The pace of a session in real time is fixed."""
    pace = RealTime(FACTOR)
    with pytest.raises(ValueError, match="real time"):
        getattr(pace, change)(*([2.0] if change == "change_speed" else []))


def opened_in(folder: Path, realtime: float | None) -> Opened:
    """Return a simulation."""
    server = JournaledServer(folder)
    opened = Library([server.scenario]).open(Hello(versions=[1]))
    opened.run.realtime = realtime
    return opened


def test_a_slow_policy_in_this_process_has_longer_waits(tmp_path: Path) -> None:
    """The time of a policy counts without a server, too, and `run.json` says so."""

    def slow(view: View) -> None:
        time.sleep(0.002)
        easy(view)

    waits_s = {}
    for realtime in (None, 1e5):
        opened, easy = opened_in(tmp_path, realtime), make_policy("easy")
        waits_s[realtime] = run_in_process(opened, slow, tmp_path / "out")["mean_wait_s"]
        recorded = msgspec.json.decode((tmp_path / "out" / "run.json").read_bytes())
        assert recorded["realtime"] == realtime
    assert waits_s[1e5] > waits_s[None] + 200.0 / 2
