"""Late replies to a client: those to earlier requests are skipped."""

from __future__ import annotations

from collections import deque

import pytest

from hpcosim_client.connection import Connection, Timeouts
from hpcosim_client.errors import ServerGoneError, ServerRefusedError
from hpcosim_protocol import (
    Error,
    ErrorCode,
    Events,
    JobSubmitted,
    NodeGroup,
    Options,
    Platform,
    Processor,
    ServerMessage,
    Welcome,
    encode,
)

PLATFORM = Platform((NodeGroup(1, (Processor(1, 1.0, 0.0, 0.0, 0.0),)),))
WELCOME = Welcome(
    version=1,
    session="s" * 8,
    scenario="x",
    seed=0,
    platform=PLATFORM,
    options=Options(
        kill_at_walltime=False,
        dynamic_jobs=False,
        max_message_bytes=1000,
        max_decisions=10,
        idle_timeout_s=60.0,
    ),
)


class Replies:
    """A link with given replies."""

    problem = ""

    def __init__(self, *replies: ServerMessage) -> None:
        self._replies = deque(map(encode, replies))

    def send(self, data: bytes) -> None:
        """Drop a request."""

    def receive(self, timeout_s: float) -> bytes | None:
        """Return the next reply."""
        return self._replies.popleft() if self._replies else None

    def clock_s(self) -> float:
        """Return 0: no time passes."""
        return 0.0

    def close(self) -> None:
        """Do nothing."""


def connection(*replies: ServerMessage) -> Connection:
    """Return a connection with an open session and further replies."""
    opened = Connection("sim://", link=Replies(WELCOME, *replies))
    opened.hello(client="tester")
    return opened


def events(seq: int) -> Events:
    """Return a reply to decisions."""
    job = JobSubmitted(1.0, 1, cores=1, requested_s=1.0)
    return Events(seq=seq, now_s=1.0, events=[job])


@pytest.mark.parametrize("code", ["unknown_session", "too_many_sessions", "unknown_scenario"])
def test_a_late_error_of_a_hello_is_skipped(code: ErrorCode) -> None:
    """A second copy of the hello that arrives after the session has ended ends no request."""
    late = Error(code=code, message="the session is closed: every job is over")
    assert connection(late, events(1)).decide([]).now_s == 1.0


@pytest.mark.parametrize("code", ["invalid_message", "message_too_large", "shutting_down"])
def test_an_error_without_the_number_of_its_request_is_a_reply(code: ErrorCode) -> None:
    """A server that did not read a request does not know its number."""
    with pytest.raises(ServerRefusedError, match=code):
        connection(Error(code=code, message="no")).decide([])


def test_late_replies_to_earlier_requests_are_skipped() -> None:
    """Events and errors of an earlier request, and a second welcome, are skipped."""
    opened = connection(
        events(1), WELCOME, events(1), Error(code="out_of_order", message="", seq=1), events(2)
    )
    opened.decide([])
    assert opened.decide([]).now_s == 1.0


class Late(Replies):
    """A link on which each reply takes a second, on a clock of its own."""

    def __init__(self, *replies: ServerMessage) -> None:
        super().__init__(*replies)
        self.now_s = 0.0

    def receive(self, timeout_s: float) -> bytes | None:
        """Wait a second, or until the timeout, for the next reply."""
        self.now_s += min(timeout_s, 1.0)
        return super().receive(timeout_s) if timeout_s > 1.0 else None

    def clock_s(self) -> float:
        """Return the time of this clock."""
        return self.now_s


@pytest.mark.parametrize("late", [0, 3])
def test_a_client_waits_exactly_until_its_timeout(late: int) -> None:
    """Neither a last repetition of the request nor late replies make the wait longer."""
    link = Late(WELCOME, *[WELCOME] * late)
    opened = Connection("sim://", Timeouts(resend_s=5.0, reply_s=7.0), link)
    opened.hello(client="tester")
    before_s = link.now_s
    with pytest.raises(ServerGoneError, match="waited 7 s"):
        opened.decide([])
    assert link.now_s - before_s == 7.0
