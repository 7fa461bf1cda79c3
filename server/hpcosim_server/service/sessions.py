"""The open sessions of a service, their names, and the totals of all processes of a server."""

from __future__ import annotations

import os
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import NamedTuple

import msgspec

from hpcosim_protocol import Decisions, Hello
from hpcosim_server.errors import SessionRefused
from hpcosim_server.service.session import Session
from hpcosim_server.wire.listener import key_of
from hpcosim_server.wire.log_rate import SharedNumbers

NAME_BYTES = 12

WORKER_DIGITS = 4
"""Hexadecimal digits at the end of a session's name: the number of the worker that has it."""

FIRST_WORKER = 1
"""Number of the first worker. It gets the requests of sessions whose name has no worker."""

NewName = Callable[[], str]

PROCESSES = 2048
"""Largest number of processes that can have a part; a server has at most 1,024 workers."""

OF_FRONT = ("hello", "get_status")


def new_name(worker: int = 0) -> str:
    """Return a secret name for a new session.

    Args:
        worker: number of the worker process that has the session, 0 to 65,535.
    """
    return f"{secrets.token_hex(NAME_BYTES)}{worker:0{WORKER_DIGITS}x}"


def worker_of(name: str) -> int:
    """Return the number of the worker process in the name of a session; 0: the name has none.

    See `FIRST_WORKER` for names without a number.
    """
    try:
        return int(name[-WORKER_DIGITS:], 16) if len(name) > WORKER_DIGITS else 0
    except ValueError:
        return 0


class Counts(NamedTuple):
    """Numbers of sessions."""

    opened: int
    active: int
    over: int


class OpenSessions:
    """The open sessions."""

    def __init__(self, totals: Totals | None = None) -> None:
        self.opened = 0
        self._totals = totals or Totals()
        self._by_name: dict[str, Session] = {}
        self._by_nonce: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Session]:
        """Iterate over the sessions that are open now; the loop may close them."""
        return iter(list(self._by_name.values()))

    @property
    def jobs(self) -> int:
        """Number of jobs of these sessions."""
        return sum(session.opened.jobs for session in self._by_name.values())

    def get(self, name: str) -> Session | None:
        """Return the session of this name; None: none is open."""
        return self._by_name.get(name)

    def opened_by(self, hello: Hello, address: bytes = b"") -> Session | None:
        """Return the session that a copy of this hello opened; None: it opened none.

        The reply to a copy has the session's secret name. So after the first request of the
        session, which shows that its client knows the name, only a copy from the connection of that
        client gets it.

        Raises:
            SessionRefused: another hello, or a hello of another client, had the same nonce.
        """
        known = self._by_nonce.get(hello.nonce) if hello.nonce else None
        if known is None:
            return None
        is_copy = known.hello == hello and known.belongs_to(address)
        if not is_copy or (known.seq and address != known.address):
            what = "hello.nonce is in use; expected a new nonce for another hello"
            raise SessionRefused("invalid_message", what)
        return known

    def nonces(self) -> list[str]:
        """Return the nonces of the hellos that opened these sessions."""
        return list(self._by_nonce)

    def add(self, session: Session) -> None:
        """Add a session that was opened."""
        self.opened += 1
        self._by_name[session.name] = session
        self.state()
        if session.hello.nonce:
            self._by_nonce[session.hello.nonce] = session

    def remove(self, session: Session) -> None:
        """Remove a session that is closed."""
        del self._by_name[session.name]
        self.state()
        self._by_nonce.pop(session.hello.nonce, None)

    def state(self) -> None:
        """State the number of these sessions, and of their jobs, for the other processes."""
        self._totals.state(Part.SESSIONS, len(self))
        self._totals.state(Part.JOBS, self.jobs)


class Part(IntEnum):
    """What is added up."""

    JOBS = 0
    KEPT_BYTES = 1
    MEMORY_BYTES = 2
    SESSIONS = 3


PLACES = PROCESSES * len(Part)
"""Place of the number of places that were taken so far."""


class Totals:
    """Sums over the processes of a server; make it before they are forked.

    Each process states its own part. The part of a process that has ended does not count. Decide
    and state within `decision`, so that two processes do not use the same room.
    """

    def __init__(self) -> None:
        self._numbers = SharedNumbers("q", PROCESSES * len(Part) + 1)
        self._owner = 0  # process that has `_own`; after a fork it is another one
        self._own = 0

    @contextmanager
    def decision(self) -> Iterator[None]:
        """Let no other process decide at the same time. Decisions are not nested."""
        self._join()
        with self._numbers:
            yield

    def state(self, part: Part, value: float) -> None:
        """State the part of this process."""
        self._join()
        self._numbers[self._own * len(Part) + part] = int(value)

    def of_others(self, part: Part) -> int:
        """Return the sum over the other processes."""
        self._join()
        found = 0
        for process in range(int(self._numbers[PLACES])):
            value = self._numbers[process * len(Part) + part]
            if value and process != self._own and self._is_alive(process):
                found += int(value)
        return found

    def _join(self) -> None:
        """Take a place for this process, unless it has one."""
        if self._owner == os.getpid():
            return
        with self._numbers:
            process = next(p for p in range(PROCESSES) if self._numbers.claim(p))
            for part in Part:
                self._numbers[process * len(Part) + part] = 0
            self._numbers[PLACES] = max(self._numbers[PLACES], process + 1)
        self._own, self._owner = process, os.getpid()

    def _is_alive(self, process: int) -> bool:
        if not self._numbers.claim(process):
            return True
        self._numbers.leave(process)
        return False


class _About(msgspec.Struct):
    type: str = ""
    session: str = ""


_about = msgspec.msgpack.Decoder(_About)


def destination(body: bytes) -> int | None:
    """Return the number of the worker of a request's session.

    Returns:
        The number; 0: the front decides; None: every process has the same reply, an error.
    """
    try:
        about = _about.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if about.session:
        return worker_of(about.session) or FIRST_WORKER
    return 0 if about.type in OF_FRONT else None


def unknown(name: str) -> str:
    """Return the error for a session that the server does not know; it names only the label."""
    return f"unknown session {name[:8]!r}; open a session with hello"


class ClosedSession(NamedTuple):
    """Data of a closed session.

    Attributes:
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
        most_bytes: maximum size of the last replies of the server, bytes; the oldest ones of this
            process go first.
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
        """Return the reply to a repeated last request of a closed session, otherwise None."""
        closed = self._by_name.get(request.session)
        if closed is None or closed.seq != request.seq or not closed.last_answer:
            return None
        return closed.last_answer if closed.owner in (b"", key_of(address)) else None


def closed_session(session: Session) -> ClosedSession:
    """Return what is kept of a session that has ended."""
    owner = key_of(session.address)
    return ClosedSession(session.ended_because, session.seq, session.last_answer, owner)
