"""Replies that the pace of a session holds back: the service and the Python client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

import hpcosim_server.service.held_replies
from hpcosim_client.connection import Timeouts
from hpcosim_client.loop import run
from hpcosim_protocol import (
    ClientMessage,
    Decisions,
    Events,
    Held,
    Hello,
    ServerStatus,
    Welcome,
    decode_server_message,
    encode,
)
from hpcosim_scenarios.running.library import Library
from hpcosim_schedulers import make_policy
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.observer import Watch
from hpcosim_server.service.pace import Pace
from hpcosim_server.service.service import Service
from hpcosim_server.service.session import Opened

SCENARIO = """
name: paced
platform: {nodes: [{count: 2, processors: [{cores: 2, static_w: 10, dynamic_w: 1}]}]}
workload: {synthetic: {model: poisson, jobs: 20, mean_interarrival_s: 60, cores: [1, 4],
  run_s: [10, 300]}}
scheduler: {name: easy}
"""

OVER_S = -1.0  # a timeout that has passed


class Recorder:
    """An observer that keeps what it was told."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.paces: dict[str, Pace] = {}

    def opened(self, label: str, opened: Opened, pace: Pace) -> None:
        """Note the pace of the session."""
        self.calls.append("opened")
        self.paces[label] = pace

    def ticked(self) -> bool:
        """Do nothing."""
        return False

    def noted(self, status: ServerStatus) -> None:
        """Do nothing."""

    def closed(self, label: str) -> None:
        """Note the end."""
        self.calls.append("closed")

    @property
    def pace(self) -> Pace:
        """The pace of the only session."""
        (pace,) = self.paces.values()
        return pace


class Desk:
    """A service with a paused session."""

    def __init__(self, folder: Path, limits: Limits, **hello: Any) -> None:
        path = folder / "paced.yaml"
        path.write_text(SCENARIO)
        self.recorder = Recorder()
        self.service = Service(Library([path]).open, limits, watch=Watch(self.recorder, 1e6))
        welcome = self.send(Hello(versions=[1], client="test", **hello))
        assert isinstance(welcome, Welcome)
        self.session = welcome.session
        self.recorder.pace.pause()

    def send(self, message: ClientMessage, envelope: bytes = b"") -> Any:
        """Return the decoded reply to a message; None: it is held back."""
        answer = self.service.answer(encode(message), (envelope,))
        return decode_server_message(answer) if answer else None

    def tidy(self) -> None:
        """Close idle sessions, and write their results."""
        self.service.tidy()
        self.service.tidy()

    def decide(self, seq: int, envelope: bytes = b"") -> Any:
        """Return the reply to a request without decisions."""
        return self.send(Decisions(session=self.session, seq=seq), envelope)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A paused session of a client that understands `held`."""
    return Desk(tmp_path, Limits(idle_s=0.0), held_replies=True)


def test_a_paused_session_gets_its_reply_after_a_step(desk: Desk) -> None:
    """The reply goes to the address of the request, once, when the pace allows it."""
    assert desk.decide(1, b"here") is None
    assert desk.service.due() == []
    desk.recorder.pace.step()
    ((envelope, reply),) = desk.service.due()
    assert envelope == (b"here",)
    assert isinstance(decode_server_message(reply), Events)
    assert desk.service.due() == []


def test_a_repeated_request_gets_held_and_later_the_reply(desk: Desk) -> None:
    """A copy of the request gets a sign of life, and the reply goes to its address."""
    desk.decide(1, b"first")
    again = desk.decide(1, b"second")
    assert isinstance(again, Held)
    assert again.seq == 1
    desk.recorder.pace.resume()
    ((envelope, reply),) = desk.service.due()
    assert envelope == (b"second",)
    assert desk.decide(1) == decode_server_message(reply)


def test_a_client_that_does_not_know_held_gets_no_such_message(tmp_path: Path) -> None:
    """The server sends `held` only to clients whose hello says that they understand it."""
    desk = Desk(tmp_path, Limits())
    desk.decide(1)
    assert desk.decide(1) is None


def test_a_paused_session_is_not_idle(desk: Desk) -> None:
    """A short idle timeout is extended while a reply is held back."""
    desk.decide(1)
    desk.service.tidy()
    assert desk.recorder.calls == ["opened"]
    desk.recorder.pace.resume()
    assert len(desk.service.due()) == 1


@pytest.mark.parametrize(("understood", "closed"), [(True, True), (False, False)])
def test_a_client_that_stops_resending_loses_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, understood: bool, closed: bool
) -> None:
    """A client that understands `held` and has been killed holds no slot for ever."""
    monkeypatch.setattr(hpcosim_server.service.held_replies, "HELD_IDLE_S", OVER_S)
    desk = Desk(tmp_path, Limits(idle_s=OVER_S), held_replies=understood)
    desk.decide(1)
    desk.tidy()
    assert ("closed" in desk.recorder.calls) is closed


def test_a_copy_of_the_request_ends_the_silence(tmp_path: Path) -> None:
    """The time of the last copy counts, for clients with and without `held`."""
    for understood in (True, False):
        desk = Desk(tmp_path, Limits(), held_replies=understood)
        desk.decide(1)
        before_s = desk.service.held.heard_s(desk.session)
        desk.service._idle_clock.busy_s -= 1.5  # the clock of the service goes on by 1.5 s
        desk.decide(1)
        assert desk.service.held.heard_s(desk.session) > before_s + 1.0


def test_the_wait_of_other_clients_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that does not understand `held` loses its session after the longest hold."""
    monkeypatch.setattr(hpcosim_server.service.held_replies, "LONGEST_HELD_S", OVER_S)
    desk = Desk(tmp_path, Limits(idle_s=OVER_S))
    desk.decide(1)
    desk.tidy()
    assert desk.recorder.calls == ["opened", "closed"]


def test_an_observer_learns_of_the_end(desk: Desk) -> None:
    """A session that the server stops is closed for the observer, and its reply is dropped."""
    desk.decide(1)
    desk.service.stop("test")
    assert desk.recorder.calls == ["opened", "closed"]
    assert len(desk.service.held) == 0


class HoldingServer(threading.Thread):
    """Answers each message of a client by a rule, with a raw socket."""

    def __init__(self, rule: Any) -> None:
        super().__init__(daemon=True)
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.rcvtimeo = 50
        port = self._socket.bind_to_random_port("tcp://127.0.0.1")
        self.address = f"tcp://127.0.0.1:{port}"
        self._rule = rule
        self._ended = threading.Event()

    def run(self) -> None:
        """Answer until the end."""
        while not self._ended.is_set():
            try:
                *envelope, body = self._socket.recv_multipart()
            except zmq.Again:
                continue
            for reply in self._rule(body):
                self._socket.send_multipart([*envelope, reply])

    def end(self) -> None:
        """End the thread."""
        self._ended.set()
        self.join()
        self._socket.close()
        self._context.term()


@pytest.fixture
def holding(tmp_path: Path) -> Iterator[tuple[HoldingServer, list[int]]]:
    """A server that answers the second request with `held` until its tenth copy."""
    path = tmp_path / "paced.yaml"
    path.write_text(SCENARIO)
    service = Service(Library([path]).open)
    copies: list[int] = []

    def rule(body: bytes) -> list[bytes]:
        seq = msgspec.msgpack.decode(body).get("seq")
        if seq == 2:
            copies.append(seq)
            if len(copies) == 1:
                return []
            if len(copies) < 10:
                return [encode(Held(seq=2, now_s=0.0))]
        return [service.answer(body)]

    server = HoldingServer(rule)
    server.start()
    yield server, copies
    server.end()


@pytest.mark.slow
def test_the_python_client_waits_while_its_reply_is_held_back(
    holding: tuple[HoldingServer, list[int]],
) -> None:
    """The client waits several times its timeout, and does not send more often than usual."""
    server, copies = holding
    timeouts = Timeouts(resend_s=0.1, reply_s=0.25)
    metrics = run(make_policy("easy"), server.address, timeouts=timeouts)
    assert metrics["jobs"] == 20
    assert len(copies) == 10
