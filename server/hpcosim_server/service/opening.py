"""Opening of sessions: new ones, ones that their clients resume, and restored ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hpcosim_protocol import Hello
from hpcosim_server import log
from hpcosim_server.service.admission import Admission
from hpcosim_server.service.event_rate import EventRate
from hpcosim_server.service.history import has_history
from hpcosim_server.service.observer import Watch
from hpcosim_server.service.pace import Pace
from hpcosim_server.service.realtime import RealTime
from hpcosim_server.service.reporting import names_of
from hpcosim_server.service.requests import options_of
from hpcosim_server.service.session import Opened, Session
from hpcosim_server.service.sessions import NewName
from hpcosim_server.service.shared import Shared


@dataclass(frozen=True, slots=True)
class Opening:
    """Opens the sessions of a service.

    Attributes:
        shared: what it shares with the rest of the service.
        admission: decides which new sessions have room.
        name: returns the secret name of each new session.
        realtime: simulated seconds per wall-clock second; None: not in real time.
        watch: an observer of the sessions, and their pace; None: there is none.
    """

    shared: Shared
    admission: Admission
    name: NewName
    realtime: float | None
    watch: Watch | None

    def open(self, hello: Hello, data: bytes, address: bytes) -> bytes:
        """Open a session, unless a copy of the hello has opened it.

        Args:
            hello: a hello without the name of a session.
            data: the hello, as it was received.
            address: address of its sender.

        Returns:
            The encoded welcome.

        Raises:
            SessionRefused: there is no room, or the hello is invalid.
        """
        known = self.shared.sessions.opened_by(hello, address)
        if known is not None:
            return known.welcome()
        opened = self.admission.open(hello)
        try:
            session = self._session(hello, opened, address)
        except BaseException:  # such as MemoryError
            self.admission.put_back()
            raise
        self.shared.journals.opened(session, data, self.shared.limits)
        self._add(session)
        log.info("session_opened", **names_of(session), jobs=opened.jobs, seed=opened.run.seed)
        return session.welcome()

    def _session(self, hello: Hello, opened: Opened, address: bytes) -> Session:
        if hello.policy:
            opened.run.policy = hello.policy
        opened.run.realtime = self.realtime
        limits, now_s = self.shared.limits, self.shared.idle_clock.now_s()
        options = options_of(opened, limits, hello)
        return Session(self.name(), hello, opened, options, now_s, address, limits)

    def resume(self, session: Session, hello: Hello) -> bytes:
        """Return the encoded welcome for a client that resumes its session."""
        if hello.history and has_history(session):
            return session.resume_with_history()
        reply = session.resume()
        self.shared.journals.resumed(session, reply)
        return reply

    def restore(self, session: Session) -> None:
        """Add a session that was restored from its journal."""
        session.note_message(self.shared.idle_clock.now_s())
        session.limits = self.shared.limits
        self._add(session)
        log.info("session_restored", **names_of(session), seq=session.seq)

    def _add(self, session: Session) -> None:
        self.shared.sessions.add(session)
        session.pace = self._pace_of(session)
        if self.watch is not None:
            session.pace = session.pace or self.watch.pace_of(session.opened, self.shared.clock)
            self.watch.observer.opened(session.label, session.opened, session.pace)

    def _pace_of(self, session: Session) -> Pace | None:
        """Return the pace that the service sets; None: it sets none."""
        if factor := session.opened.run.realtime:
            return RealTime(factor, session.opened.simulation.now_s, self.shared.clock)
        if self.shared.limits.events_per_s < math.inf:
            return EventRate(
                self.shared.limits.events_per_s, lambda: session.events, self.shared.clock
            )
        return None
