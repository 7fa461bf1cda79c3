"""Closed sessions, for clients that did not receive the last reply."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import NamedTuple

from hpcosim_protocol import Decisions
from hpcosim_server.errors import SessionRefused
from hpcosim_server.service.session import Session
from hpcosim_server.service.sessions import Part, Totals
from hpcosim_server.wire.listener import key_of


def unknown(name: str) -> str:
    """Return the error for a session that the server does not know; it names only the label."""
    return f"unknown session {name[:8]!r}; open a session with hello"


class ClosedSession(NamedTuple):
    """Data of a closed session.

    Attributes:
        why: reason for the end of the session.
        seq: number of the last request.
        last_answer: encoded reply to that request; empty: it is not kept.
        owner: public key of its client; empty: it has none.
    """

    why: str
    seq: int
    last_answer: bytes
    owner: bytes = b""


class ClosedSessions:
    """The most recently closed sessions, by name.

    Args:
        limit: maximum number of sessions to keep.
        most_bytes: maximum size of the last replies of the server, bytes; the oldest ones of this
            process go first.
        totals: the totals of the server; None: its own.
    """

    def __init__(self, limit: int, most_bytes: int, totals: Totals | None = None) -> None:
        self._totals = totals or Totals()
        self._limit = limit
        self._most_bytes = most_bytes
        self._bytes = 0
        self._with_answer: deque[str] = deque()
        self._by_name: OrderedDict[str, ClosedSession] = OrderedDict()

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def add(self, session: Session) -> None:
        """Add a session that has ended; drop the oldest one beyond the limit."""
        self.remember(session.name, closed_session(session))

    def remember(self, name: str, closed: ClosedSession) -> None:
        """Add a session by its name; drop the oldest ones, or their replies, beyond the limits."""
        if known := self._by_name.get(name):
            self._bytes -= len(known.last_answer)
        self._by_name[name] = closed
        self._bytes += len(closed.last_answer)
        self._with_answer.append(name)
        with self._totals.decision():
            most_bytes = self._most_bytes - self._totals.of_others(Part.KEPT_BYTES)
            while self._bytes > most_bytes or len(self._with_answer) > self._limit:
                oldest = self._with_answer.popleft()
                if dropped := self._by_name.get(oldest):
                    self._bytes -= len(dropped.last_answer)
                    self._by_name[oldest] = dropped._replace(last_answer=b"")
            self._totals.state(Part.KEPT_BYTES, self._bytes)
        if len(self._by_name) > self._limit:
            self._by_name.popitem(last=False)

    def refusal(self, name: str) -> SessionRefused:
        """Return the error for a session that is not open."""
        if name in self._by_name:
            what = f"the session {name[:8]!r} is closed: {self._by_name[name].why}"
        else:
            what = unknown(name)
        return SessionRefused("unknown_session", what)

    def repeated_reply(self, request: Decisions, address: bytes = b"") -> bytes | None:
        """Return the reply to a repeated last request of a closed session, otherwise None.

        Args:
            address: address of its sender, who must have the key of the session's client.
        """
        closed = self._by_name.get(request.session)
        if closed is None or closed.seq != request.seq or not closed.last_answer:
            return None
        return closed.last_answer if closed.owner in (b"", key_of(address)) else None


def closed_session(session: Session) -> ClosedSession:
    """Return what is kept of a session that has ended."""
    owner = key_of(session.address)
    return ClosedSession(session.ended_because, session.seq, session.last_answer, owner)
