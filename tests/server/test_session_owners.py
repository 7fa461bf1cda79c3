"""Who can use a session: copies of a hello, keys, and sessions that nobody uses."""

from __future__ import annotations

from pathlib import Path

import msgpack
import pytest

from hpcosim_protocol import Hello
from hpcosim_scenarios.running.library import Library
from hpcosim_server.journal.store import Journals
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.service import Service
from support.logs import captured_log
from support.processes import SCENARIO

KEY, OTHER_KEY = b"k" * 40, b"o" * 40
HERE, THERE = b"connection 1", b"connection 2"


class Clock:
    """A clock that the test sets."""

    now_s = 1000.0

    def __call__(self) -> float:
        """Return the time, s."""
        return self.now_s


class Desk:
    """A service in this process."""

    def __init__(
        self,
        folder: Path,
        limits: Limits | None = None,
        sessions: int | None = None,
        journals: Journals | None = None,
    ) -> None:
        path = folder / "small.yaml"
        path.write_text(SCENARIO.format(name="small", jobs=40))
        self.clock = Clock()
        self.out = folder / "out"
        self.service = Service(
            Library([path]).open,
            limits,
            self.out,
            sessions=sessions,
            clock=self.clock,
            journals=journals,
        )

    def ask(self, address: bytes, kind: str, **fields: object) -> dict[str, object]:
        """Return the reply to a message from a connection."""
        data = msgpack.packb({"type": kind, **fields})
        reply: dict[str, object] = msgpack.unpackb(self.service.answer(data, [address]))
        return reply

    def hello(self, address: bytes, **fields: object) -> dict[str, object]:
        """Return the reply to a hello."""
        return self.ask(address, "hello", versions=[1], client="tester", **fields)

    def pass_time(self, passed_s: float) -> None:
        """Let wall-clock time pass."""
        until_s = self.clock.now_s + passed_s
        while self.clock.now_s < until_s:  # a clock that jumps is a server that was stopped
            self.clock.now_s = min(until_s, self.clock.now_s + 1.0)
            self.service.tidy()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A service with default limits."""
    return Desk(tmp_path)


def test_copy_of_a_hello_after_a_reconnection_gets_the_first_welcome(desk: Desk) -> None:
    """Before the first request, a client that connects again still learns its session's name."""
    first = desk.hello(HERE, nonce="n")
    assert desk.hello(THERE, nonce="n") == first


def test_copy_of_a_hello_by_another_peer_does_not_get_the_name(desk: Desk) -> None:
    """After the first request, only the connection that sent it gets the welcome again."""
    first = desk.hello(HERE, nonce="n")
    desk.ask(HERE, "decisions", session=first["session"], seq=1, decisions=[])
    copy = desk.hello(THERE, nonce="n")
    assert (copy["type"], copy["code"]) == ("error", "invalid_message")
    assert str(first["session"]) not in str(copy)
    assert desk.hello(HERE, nonce="n") == first  # a late copy of the client's own


def test_copy_from_the_connection_of_the_last_request_is_answered(desk: Desk) -> None:
    """A client that connects again and goes on may send a late copy of its hello from there."""
    first = desk.hello(HERE, nonce="n")
    desk.ask(THERE, "decisions", session=first["session"], seq=1, decisions=[])
    assert desk.hello(THERE, nonce="n") == first
    assert desk.hello(HERE, nonce="n")["type"] == "error"


def test_another_key_cannot_use_a_session(desk: Desk) -> None:
    """With keys, the name of a session alone does not open it, whatever the message."""
    mine, theirs = KEY + HERE, OTHER_KEY + HERE
    first = desk.hello(mine, nonce="n")
    name = first["session"]
    for kind, fields in (
        ("decisions", {"session": name, "seq": 1, "decisions": []}),
        ("bye", {"session": name}),
        ("hello", {"versions": [1], "client": "tester", "session": name}),
    ):
        assert desk.ask(theirs, kind, **fields)["code"] == "unknown_session"
    assert desk.hello(theirs, nonce="n")["code"] == "invalid_message"
    reply = desk.ask(KEY + THERE, "decisions", session=name, seq=1, decisions=[])
    assert reply["type"] == "events"


def test_another_key_does_not_get_the_last_reply(desk: Desk) -> None:
    """The last reply of a closed session is repeated only for the key of its client."""
    mine, theirs = KEY + HERE, OTHER_KEY + HERE
    name = desk.hello(mine)["session"]
    last = {"session": name, "seq": 1, "decisions": []}
    reply = desk.ask(mine, "decisions", **last)
    desk.ask(mine, "bye", session=name)
    assert desk.ask(theirs, "decisions", **last)["code"] == "unknown_session"
    assert desk.ask(KEY + THERE, "decisions", **last) == reply


def test_session_without_a_request_is_closed_early(tmp_path: Path) -> None:
    """Clients that crash after their hello give their places back after a minute."""
    desk = Desk(tmp_path, Limits(sessions=2))
    used = desk.hello(HERE)["session"]
    desk.ask(HERE, "decisions", session=used, seq=1, decisions=[])
    desk.hello(HERE)
    assert desk.hello(THERE)["code"] == "too_many_sessions"
    desk.pass_time(61.0)
    assert desk.hello(THERE)["type"] == "welcome"
    assert desk.ask(HERE, "decisions", session=used, seq=2, decisions=[])["type"] == "events"


@pytest.mark.parametrize("end", ["bye", "silence"])
def test_hello_of_a_stranger_does_not_use_up_the_only_session(tmp_path: Path, end: str) -> None:
    """With one session in all, one without a request is given back: no failure, no results."""
    desk = Desk(tmp_path, sessions=1)
    left = desk.hello(HERE)["session"]
    if end == "bye":
        assert desk.ask(HERE, "bye", session=left)["type"] == "goodbye"
        assert desk.ask(HERE, "bye", session=left)["type"] == "goodbye"
    else:
        desk.pass_time(61.0)
    assert not desk.service.done
    assert not desk.service.failures
    desk.service.tidy()
    assert desk.service.counts == (0, 0, 0)
    assert not desk.out.exists()
    used = desk.hello(THERE)["session"]
    desk.ask(THERE, "decisions", session=used, seq=1, decisions=[])
    desk.ask(THERE, "bye", session=used)
    desk.service.tidy()
    assert desk.service.done
    assert [failure.cause for failure in desk.service.failures] == ["client_left"]


def test_unused_sessions_leave_no_journal(tmp_path: Path) -> None:
    """Clients that greet and leave do not push the journals of others out of the folder."""
    journals = Journals(tmp_path / "journals")
    desk = Desk(tmp_path, journals=journals)
    desk.ask(HERE, "bye", session=desk.hello(HERE)["session"])
    desk.hello(HERE)
    assert len(journals.open_names()) == 1
    desk.pass_time(61.0)
    assert (journals.open_names(), journals.ended_names()) == ([], [])


def test_folders_of_partial_sessions_are_bounded(tmp_path: Path) -> None:
    """Sessions that end early make a bounded number of results folders."""
    desk = Desk(tmp_path, Limits(partial_results=3))
    for _ in range(10):
        name = desk.hello(HERE)["session"]
        desk.ask(HERE, "decisions", session=name, seq=1, decisions=[])
        desk.ask(HERE, "bye", session=name)
        desk.service.tidy()
    assert len(list(desk.out.iterdir())) == 3


def test_log_of_an_internal_error_has_no_secret(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The traceback in the log has no local variables and no name of a session."""
    name = str(desk.hello(HERE)["session"])

    def fail(*_: object) -> None:
        raise KeyError(f"bug near {name}")

    monkeypatch.setattr("hpcosim_server.service.session.Session.decide", fail)
    with captured_log() as entries:
        desk.ask(HERE, "decisions", session=name, seq=1, decisions=[])
    logged = str(entries)
    assert "Traceback" in logged
    assert "bug near" in logged
    assert name not in logged


@pytest.mark.parametrize("allowed", [(), ("scheduler.*",)])
def test_overrides_that_are_not_allowed(allowed: tuple[str, ...], tmp_path: Path) -> None:
    """A client may override what the patterns allow, and always the seed."""
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO.format(name="small", jobs=40))
    library = Library([path], allowed=allowed)
    library.open(Hello(versions=[1], seed=4))
    with pytest.raises(Exception, match=r"limits\.allow_override"):
        library.open(Hello(versions=[1], overrides={"workload.load": 2.0}))
