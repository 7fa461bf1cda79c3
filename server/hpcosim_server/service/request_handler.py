"""The requests of clients: sessions are opened, resumed, decided on and closed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from hpcosim_protocol import Bye, Decisions, GetHistory, Goodbye, Hello, encode
from hpcosim_server import log
from hpcosim_server.service.admission import Admission, options_of
from hpcosim_server.service.countdown import Countdown, IdleClock
from hpcosim_server.service.held_replies import Envelope, HeldReplies, HeldReply
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.memory import Garbage
from hpcosim_server.service.observer import Observer, Watch
from hpcosim_server.service.outcomes import Outcomes
from hpcosim_server.service.pace import EventRate, Pace, RealTime
from hpcosim_server.service.session import Opened, Session
from hpcosim_server.service.session_journals import SessionJournals, has_history, history_of
from hpcosim_server.service.sessions import ClosedSessions, NewName, OpenSessions
from hpcosim_server.service.status import Cause, Failure, names_of, progress_of
from hpcosim_server.service.vitals import Vitals
from hpcosim_server.wire.listener import address_of

CLIENT_WENT = ("client_left", "client_silent")


@dataclass(frozen=True, slots=True)
class RequestHandler:
    """Carries out the requests of the clients of a service."""

    state: ServiceState
    opening: SessionOpener
    closing: SessionCloser

    def reply(
        self, message: Hello | Decisions | GetHistory | Bye, data: bytes, envelope: Envelope
    ) -> bytes:
        """Carry out a request.

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
        if message.session not in self.state.closed:  # or the client did not receive the goodbye
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
        repeated = self.state.closed.repeated_reply(request, address)
        if repeated is not None:
            return repeated
        session = self._find(request.session, address)
        repeated = self.state.held.repeated(request, envelope, self.state.idle_clock.now_s())
        if repeated is not None:
            return repeated
        before, session.address = session.seq, address
        elapsed_s = None
        if isinstance(session.pace, RealTime):
            elapsed_s = max(request.elapsed_s, session.pace.elapsed_s())
        answer = session.decide(request, elapsed_s)
        session.note_message(self.state.idle_clock.now_s())
        if session.seq > before:
            self.state.journals.exchanged(session, data, answer, elapsed_s)
        if session.ended_because:
            if session.opened.run.complete:
                self.closing.close(session, None)
                return self.closing.last_reply(session, answer)
            self.closing.close(session, "simulation_stuck")
            return answer
        if session.pace is not None and not session.pace.is_free and session.seq > before:
            return self.state.held.hold(HeldReply.of(session, session.pace, envelope, request))
        return answer

    def _find(self, name: str, address: bytes) -> Session:
        session = self.state.sessions.get(name)
        if session is None or not session.belongs_to(address):
            raise self.state.closed.refusal(name)
        return session

    def _heard(self, name: str, address: bytes) -> Session:
        """Return an open session whose client has sent a message."""
        session = self._find(name, address)
        session.note_message(self.state.idle_clock.now_s())
        return session


@dataclass(frozen=True, slots=True)
class SessionOpener:
    """Opens the sessions of a service.

    Attributes:
        realtime: simulated seconds per wall-clock second; None: not in real time.
    """

    state: ServiceState
    admission: Admission
    name: NewName
    realtime: float | None
    watch: Watch | None

    def open(self, hello: Hello, data: bytes, address: bytes) -> bytes:
        """Open a session, unless a copy of the hello has opened it.

        Returns:
            The encoded welcome.

        Raises:
            SessionRefused: there is no room, or the hello is invalid.
        """
        known = self.state.sessions.opened_by(hello, address)
        if known is not None:
            return known.welcome()
        opened = self.admission.open(hello)
        try:
            session = self._session(hello, opened, address)
        except BaseException:  # such as MemoryError
            self.admission.put_back()
            raise
        self.state.journals.opened(session, data, self.state.limits)
        self._add(session)
        log.info("session_opened", **names_of(session), jobs=opened.jobs, seed=opened.run.seed)
        return session.welcome()

    def _session(self, hello: Hello, opened: Opened, address: bytes) -> Session:
        if hello.policy:
            opened.run.policy = hello.policy
        opened.run.realtime = self.realtime
        limits, now_s = self.state.limits, self.state.idle_clock.now_s()
        options = options_of(opened, limits, hello)
        return Session(self.name(), hello, opened, options, now_s, address, limits)

    def resume(self, session: Session, hello: Hello) -> bytes:
        """Return the encoded welcome for a client that resumes its session."""
        if hello.history and has_history(session):
            return session.resume_with_history()
        reply = session.resume()
        self.state.journals.resumed(session, reply)
        return reply

    def restore(self, session: Session) -> None:
        """Add a session that was restored from its journal."""
        session.note_message(self.state.idle_clock.now_s())
        session.limits = self.state.limits
        self._add(session)
        log.info("session_restored", **names_of(session), seq=session.seq)

    def _add(self, session: Session) -> None:
        self.state.sessions.add(session)
        session.pace = self._pace_of(session)
        if self.watch is not None:
            session.pace = session.pace or self.watch.pace_of(session.opened, self.state.clock)
            self.watch.observer.opened(session.label, session.opened, session.pace)

    def _pace_of(self, session: Session) -> Pace | None:
        """Return the pace that the service sets; None: it sets none."""
        if factor := session.opened.run.realtime:
            return RealTime(factor, session.opened.simulation.now_s, self.state.clock)
        if self.state.limits.events_per_s < math.inf:
            return EventRate(
                self.state.limits.events_per_s, lambda: session.events, self.state.clock
            )
        return None


@dataclass(frozen=True, slots=True)
class SessionCloser:
    """Closes the sessions of a service."""

    state: ServiceState
    left: Countdown
    outcomes: Outcomes
    vitals: Vitals
    observer: Observer | None
    garbage: Garbage

    def close(self, session: Session, failed: Cause | None) -> None:
        """Close a session that has ended; `write_results` writes its results.

        A session whose client left it, or went away, before its first request does not count: it
        has no results, is no failure, and gives its place back. Strangers that greet must not use
        up `--once`.

        Args:
            failed: cause of its end; None: it is complete.
        """
        self.state.sessions.remove(session)
        self.state.held.drop(session.name)
        self.state.closed.add(session)
        if failed in CLIENT_WENT and not session.seq:
            self._forget(session)
            return
        self.outcomes.add(session)
        self.state.journals.ended(session, failed)
        self.vitals.report(progress_of(session))
        if failed:
            self.outcomes.fail(Failure(failed, session.ended_because))
        write_log = log.warning if failed else log.info
        write_log("session_closed", **names_of(session), reason=session.ended_because)

    def last_reply(self, session: Session, answer: bytes) -> bytes:
        """Write the results of a complete session that was closed, and return its last reply.

        The client learns from it that the results are not written. The journal of the session ends
        after the reply, in `write_results`: a server that is killed in between writes them again.

        Args:
            answer: the encoded `simulation_ended`.
        """
        began_s = self.state.clock()
        error = self.outcomes.attempt(session)
        self.state.idle_clock.note_work(began_s)
        if not error:
            return answer
        told = session.tell_results_error(error)
        self.state.closed.add(session)
        return told

    def close_if_silent(self, session: Session, now_s: float) -> None:
        """Close a session whose client has been silent for too long.

        Args:
            now_s: time of the idle clock, s.
        """
        timeout_s = self.state.held.idle_timeout_s(session.name, self.state.limits.idle_s)
        if not session.seq:
            timeout_s = min(timeout_s, self.state.limits.first_request_s)
        if now_s - max(session.last_message_s, self.state.held.heard_s(session.name)) <= timeout_s:
            return
        session.end(f"no message from the client for more than {timeout_s:g} s")
        self.close(session, "client_silent")

    def _forget(self, session: Session) -> None:
        """Treat a closed session as one that was never opened."""
        self.state.journals.dropped(session)
        self.state.sessions.opened -= 1
        self.left.put_back()
        self.garbage.note_dropped()
        if self.observer is not None:
            self.observer.closed(session.label)
        log.info("session_unused", **names_of(session), reason=session.ended_because)

    def write_results(self, *, last: bool) -> None:
        """Write the results of the sessions that are over.

        Args:
            last: there will be no further attempt.
        """
        if not self.outcomes:
            return
        began_s = self.state.clock()
        for session in self.outcomes.write(last=last):
            self.garbage.note_dropped()
            if session.results_written:
                self.vitals.results_failing = False
                self.state.journals.written(session)
            if self.observer is not None:
                self.observer.closed(session.label)
        self.vitals.results_failing |= bool(self.outcomes)  # they wait for the next attempt
        self.state.idle_clock.note_work(began_s)


@dataclass(frozen=True, slots=True)
class ServiceState:
    """The sessions of a service, its limits and its clocks."""

    limits: Limits
    clock: Callable[[], float]
    idle_clock: IdleClock
    sessions: OpenSessions
    held: HeldReplies
    closed: ClosedSessions
    journals: SessionJournals
