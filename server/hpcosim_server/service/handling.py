"""Requests of clients: each is passed to its session, which must belong to the client."""

from __future__ import annotations

from dataclasses import dataclass

from hpcosim_protocol import Bye, Decisions, GetHistory, Goodbye, Hello, encode
from hpcosim_server.service.closing import Closing
from hpcosim_server.service.held import Envelope, HeldReply
from hpcosim_server.service.history import history_of
from hpcosim_server.service.opening import Opening
from hpcosim_server.service.realtime import RealTime
from hpcosim_server.service.session import Session
from hpcosim_server.service.shared import Shared
from hpcosim_server.wire.address import address_of


@dataclass(frozen=True, slots=True)
class Handling:
    """Carries out the requests of the clients of a service.

    Attributes:
        shared: what it shares with the rest of the service.
        opening: opens sessions.
        closing: closes sessions.
    """

    shared: Shared
    opening: Opening
    closing: Closing

    def reply(
        self, message: Hello | Decisions | GetHistory | Bye, data: bytes, envelope: Envelope
    ) -> bytes:
        """Carry out a request.

        Args:
            message: the request.
            data: the request, as it was received.
            envelope: return address of its sender.

        Returns:
            The encoded reply, or `HELD`.

        Raises:
            SessionRefused: no session is opened, or none of this name is open for the sender.
        """
        if isinstance(message, Hello):
            return self._hello(message, data, address_of(envelope))
        if isinstance(message, Decisions):
            return self._decide(message, data, envelope)
        if isinstance(message, GetHistory):
            session = self._heard(message.session, address_of(envelope))
            return encode(history_of(session, message))
        if message.session not in self.shared.closed:  # or the client did not receive the goodbye
            session = self._find(message.session, address_of(envelope))
            session.end("the client left")
            self.closing.close(session, "client_left")
        return encode(Goodbye())

    def _hello(self, hello: Hello, data: bytes, address: bytes) -> bytes:
        if hello.session:
            return self.opening.resume(self._heard(hello.session, address), hello)
        return self.opening.open(hello, data, address)

    def _decide(self, request: Decisions, data: bytes, envelope: Envelope) -> bytes:
        address = address_of(envelope)
        repeated = self.shared.closed.repeated_reply(request, address)
        if repeated is not None:
            return repeated
        session = self._find(request.session, address)
        repeated = self.shared.held.repeated(request, envelope, self.shared.idle_clock.now_s())
        if repeated is not None:
            return repeated
        before, session.address = session.seq, address
        elapsed_s = None
        if isinstance(session.pace, RealTime):
            elapsed_s = max(request.elapsed_s, session.pace.elapsed_s())
        answer = session.decide(request, elapsed_s)
        session.note_message(self.shared.idle_clock.now_s())
        if session.seq > before:
            self.shared.journals.exchanged(session, data, answer, elapsed_s)
        if session.ended_because:
            if session.opened.run.complete:
                self.closing.close(session, None)
                return self.closing.last_reply(session, answer)
            self.closing.close(session, "simulation_stuck")
            return answer
        if session.pace is not None and not session.pace.is_free and session.seq > before:
            return self.shared.held.hold(HeldReply.of(session, session.pace, envelope, request))
        return answer

    def _find(self, name: str, address: bytes) -> Session:
        session = self.shared.sessions.get(name)
        if session is None or not session.belongs_to(address):
            raise self.shared.closed.refusal(name)
        return session

    def _heard(self, name: str, address: bytes) -> Session:
        """Return an open session whose client has sent a message."""
        session = self._find(name, address)
        session.note_message(self.shared.idle_clock.now_s())
        return session
