"""Replies that are held back, because the pace of their session is slower than the simulation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

from hpcosim_protocol import Decisions, Held, encode
from hpcosim_server.service.pace import Pace
from hpcosim_server.service.session import Session
from hpcosim_server.wire.listener import address_of

Envelope = Sequence[bytes]
"""The frames before the body of a message: the return address of its sender."""

HELD_IDLE_S = 60.0
"""Least idle timeout while a reply is held back from a client that understands `held`, s: such a
client sends its request again every few seconds."""
LONGEST_HELD_S = 86_400.0
"""Least idle timeout while a reply is held back from another client, s: it may wait in silence."""

HELD = b""
"""Instead of a reply: it is held back, and the request gets no reply now."""


class HeldReply(NamedTuple):
    """A reply that waits for its time.

    Attributes:
        envelope: the return address of the last copy of the request.
    """

    envelope: Envelope
    request: Decisions
    now_s: float
    answer: bytes
    pace: Pace
    understood: bool
    heard_s: float

    @classmethod
    def of(cls, session: Session, pace: Pace, envelope: Envelope, request: Decisions) -> Self:
        """Return the last reply of a session, which has this pace."""
        now_s, understood = session.opened.simulation.now_s, session.hello.held_replies
        heard_s = session.last_message_s
        return cls(envelope, request, now_s, session.last_answer, pace, understood, heard_s)


class HeldReplies:
    """The replies that a service holds back, at most one for each session."""

    def __init__(self) -> None:
        self._by_session: dict[str, HeldReply] = {}

    def __len__(self) -> int:
        return len(self._by_session)

    def __contains__(self, session: str) -> bool:
        return session in self._by_session

    def hold(self, reply: HeldReply) -> bytes:
        """Hold back a reply, unless it is due; return it or `HELD`."""
        name = reply.request.session
        self._by_session.pop(name, None)
        if reply.pace.wait_s(reply.now_s) <= 0.0:
            reply.pace.sent(reply.now_s)
            return reply.answer
        self._by_session[name] = reply
        return HELD

    def waits_for(self, address: bytes) -> bool:
        """Return whether a reply to a client is held back."""
        return any(address_of(held.envelope) == address for held in self._by_session.values())

    def drop(self, session: str) -> None:
        """Forget the reply of a session, if one is held back."""
        self._by_session.pop(session, None)

    def heard_s(self, session: str) -> float:
        """Return the time of the last copy of a request on the service's clock, s; 0: none."""
        held = self._by_session.get(session)
        return 0.0 if held is None else held.heard_s

    def idle_timeout_s(self, session: str, usual_s: float) -> float:
        """Return the idle timeout of a session whose reply may be held back, s."""
        held = self._by_session.get(session)
        if held is None:
            return usual_s
        return max(usual_s, HELD_IDLE_S if held.understood else LONGEST_HELD_S)

    def repeated(self, request: Decisions, envelope: Envelope, clock_s: float) -> bytes | None:
        """Return the reply to a copy of a request whose reply is held back; None: it is none."""
        held = self._by_session.get(request.session)
        if held is None or held.request.seq != request.seq or held.request != request:
            return None
        self._by_session[request.session] = held._replace(envelope=envelope, heard_s=clock_s)
        return encode(Held(seq=request.seq, now_s=held.now_s)) if held.understood else HELD

    def due(self) -> Iterator[tuple[str, Envelope, bytes]]:
        """Remove the replies that are due; yield their sessions, return addresses and bytes."""
        for name, held in list(self._by_session.items()):
            if held.pace.wait_s(held.now_s) <= 0.0:
                held.pace.sent(held.now_s)
                del self._by_session[name]
                yield name, held.envelope, held.answer

    def all(self) -> Iterator[tuple[Envelope, bytes]]:
        """Remove all replies; yield their return addresses and bytes."""
        while self._by_session:
            _, held = self._by_session.popitem()
            yield held.envelope, held.answer

    def wait_s(self) -> float:
        """Return the time until the next reply is due, wall-clock s; infinity: none is."""
        return min(
            (held.pace.wait_s(held.now_s) for held in self._by_session.values()),
            default=float("inf"),
        )
