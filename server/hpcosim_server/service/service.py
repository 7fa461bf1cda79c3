"""The service: independent sessions, encoded messages in, encoded replies out, no socket."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from hpcosim_protocol import (
    ClientMessage,
    Decisions,
    Error,
    ErrorCode,
    Goodbye,
    Hello,
    encode,
)
from hpcosim_server.errors import SessionRefused
from hpcosim_server.record.results import Also
from hpcosim_server.service.closed import ClosedSessions
from hpcosim_server.service.held import Envelope, HeldReplies, HeldReply
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.observer import Ticker, Watch
from hpcosim_server.service.outcomes import REMEMBERED, Outcomes
from hpcosim_server.service.reporting import log_progress, names_of, progress_of
from hpcosim_server.service.requests import decode_request, options_of
from hpcosim_server.service.session import Opened, Session
from hpcosim_server.service.sessions import NewName, OpenSessions, new_name
from hpcosim_server.service.status import Cause, Failure, Status

log = structlog.get_logger()

SessionFactory = Callable[[Hello], Opened]
"""Returns the simulation for a hello, or raises SessionRefused."""

PROGRESS_INTERVAL_S = 0.25


class Service:
    """Replies to messages and writes the results of closed sessions.

    Args:
        new_session: creates the simulation of a new session.
        limits: limits for clients; None: the defaults of `Limits`.
        out: folder for results; None: no results are written.
        sessions: total number of sessions that the service opens; None: unlimited.
        folder_per_session: whether each session has its own folder in `out`; otherwise the results
            go to `out` itself.
        also: additional result writers.
        report: receives each failure immediately and the progress of each active session every
            `PROGRESS_INTERVAL_S`; None: progress goes to the log.
        watch: an observer of the sessions, and their pace; None: no observer, as fast as possible.
        clock: returns the wall-clock time, s.
        name: returns the secret name of each new session.

    Attributes:
        held: the replies that the pace of their sessions holds back.
    """

    def __init__(
        self,
        new_session: SessionFactory,
        limits: Limits | None = None,
        out: Path | None = None,
        *,
        sessions: int | None = None,
        folder_per_session: bool = True,
        also: Sequence[Also] = (),
        report: Callable[[Status], None] | None = None,
        watch: Watch | None = None,
        clock: Callable[[], float] = time.monotonic,
        name: NewName = new_name,
    ) -> None:
        self.limits = limits or Limits()
        self.held = HeldReplies()
        self._new_session = new_session
        self._sessions_left = sessions
        self._report = report or log_progress
        self._outcomes = Outcomes(
            self._report,
            out,
            folder_per_session=folder_per_session,
            also=also,
            limits=self.limits,
            clock=clock,
        )
        self._watch = watch
        self._clock = clock
        self._name = name
        self._ticker = Ticker(watch.observer.ticked, clock) if watch else None
        self._open = OpenSessions()
        self._closed = ClosedSessions(REMEMBERED)
        self._stopped = ""
        self._busy_s = 0.0
        self._progress_due_s = 0.0

    @property
    def done(self) -> bool:
        """Whether all sessions that the service opens are closed and their results written."""
        return self._sessions_left == 0 and not self._open and not self._outcomes

    @property
    def failures(self) -> list[Failure]:
        """The first `REMEMBERED` failures, for the exit status."""
        return self._outcomes.failures

    def answer(self, data: bytes, envelope: Envelope = ()) -> bytes:
        """Return the encoded reply to a message. Invalid bytes get an `error` reply.

        Args:
            data: the message.
            envelope: return address of the sender.

        Returns:
            The reply, or `HELD`: it is held back, and `due` returns it later with the envelope.
        """
        began_s = self._clock()
        try:
            return self._answer(data, envelope)
        finally:
            self._busy_s += self._clock() - began_s

    def due(self) -> Sequence[tuple[Envelope, bytes]]:
        """Return the replies that have been held back long enough, with their return addresses."""
        replies = []
        for name, envelope, reply in self.held.due():
            session = self._open.get(name)
            assert session is not None  # a closed session has no held reply
            session.note_message(self._idle_clock_s())
            replies.append((envelope, reply))
        return replies

    def _answer(self, data: bytes, envelope: Envelope) -> bytes:
        if self._stopped:
            return _error("shutting_down", self._stopped, fatal=True)
        message = decode_request(data, self.limits.message_bytes)
        if isinstance(message, Error):
            return encode(message)
        seq = message.seq if isinstance(message, Decisions) else 0
        try:
            return self._dispatch(message, envelope)
        except SessionRefused as refused:
            return _error(refused.code, refused.what, seq=seq)
        except Exception as error:  # a bug in one session must not end the others
            log.exception("internal_error", error=str(error))
            name = "" if isinstance(message, Hello) else message.session
            session = self._open.get(name)
            if session is not None:
                session.end(f"internal error: {error!r}")
                self._close(session, "internal_error")
            return _error(
                "internal_error", "internal error; see the server's log", fatal=True, seq=seq
            )

    def tidy(self, *, last: bool = False) -> None:
        """Write results, report progress, close idle sessions. Call it between requests.

        Args:
            last: results that do not fit on the disk are lost; there is no further attempt.
        """
        if self._outcomes:
            began_s = self._clock()
            for session in self._outcomes.write(last=last):
                if self._watch is not None:
                    self._watch.observer.closed(session.label)
            self._busy_s += self._clock() - began_s
        if self._ticker is not None:
            self._ticker.tick()
        wall_s = self._clock()
        if wall_s < self._progress_due_s:
            return
        self._progress_due_s = wall_s + PROGRESS_INTERVAL_S
        now_s = self._idle_clock_s()
        for session in self._open:
            if session.has_progressed(now_s):
                self._report(progress_of(session))
            heard_s = max(session.last_message_s, self.held.heard_s(session.name))
            timeout_s = self.held.idle_timeout_s(session.name, self.limits.idle_s)
            if now_s - heard_s > timeout_s:
                session.end(f"no message from the client for more than {timeout_s:g} s")
                self._close(session, "client_silent")

    def stop(self, why: str) -> bool:
        """Close the service. Every further message gets the error `shutting_down`.

        Args:
            why: reason, for the clients and for `run.json`.

        Returns:
            Whether a session was open.
        """
        interrupted = bool(self._open)
        self.close(why)
        self._stopped = why
        return interrupted

    def close(self, why: str) -> None:
        """Close every open session and write its results."""
        for session in self._open:
            session.end(why)
            self._close(session, "stopped")
        self.tidy(last=True)

    def _dispatch(self, message: ClientMessage, envelope: Envelope) -> bytes:
        if isinstance(message, Hello):
            return self._hello(message)
        if isinstance(message, Decisions):
            return self._decide(message, envelope)
        if message.session in self._closed:  # the client did not receive the goodbye
            return encode(Goodbye())
        session = self._find(message.session)
        session.end("the client left")
        self._close(session, "client_left")
        return encode(Goodbye())

    def _decide(self, request: Decisions, envelope: Envelope) -> bytes:
        repeated = self._closed.repeated_reply(request)
        if repeated is None:
            repeated = self.held.repeated(request, envelope, self._idle_clock_s())
        if repeated is not None:
            return repeated
        session = self._find(request.session)
        before = session.seq
        answer = session.decide(request)
        session.note_message(self._idle_clock_s())
        if session.ended_because:
            self._close(session, None if session.opened.run.complete else "simulation_stuck")
            return answer
        pace = session.pace
        if pace is not None and not pace.is_free and session.seq > before:
            now_s, understood = session.opened.simulation.now_s, session.hello.held_replies
            heard_s = session.last_message_s
            held = HeldReply(envelope, request, now_s, answer, pace, understood, heard_s)
            return self.held.hold(held)
        return answer

    def _hello(self, hello: Hello) -> bytes:
        if hello.session:
            session = self._find(hello.session)
            session.note_message(self._idle_clock_s())
            return session.resume()
        known = self._open.opened_by(hello)
        if known is not None:
            return known.welcome()
        self._check_room()
        opened = self._new_session(hello)
        if hello.policy:
            opened.run.policy = hello.policy
        if self._sessions_left is not None:
            self._sessions_left -= 1
        options = options_of(opened, self.limits, hello)
        session = Session(self._name(), hello, opened, options, self._idle_clock_s())
        self._open.add(session)
        if self._watch is not None:
            session.pace = self._watch.pace_of(opened)
            self._watch.observer.opened(session.label, opened, session.pace)
        log.info("session_opened", **names_of(session), jobs=opened.jobs, seed=opened.run.seed)
        return session.welcome()

    def _check_room(self) -> None:
        if len(self._open) >= self.limits.sessions:
            what = f"{self.limits.sessions} sessions are open, the maximum of this server"
            raise SessionRefused("too_many_sessions", what)
        if self._sessions_left == 0:
            what = "the server has opened all the sessions it was started for"
            raise SessionRefused("too_many_sessions", what)

    def _idle_clock_s(self) -> float:
        """Return a clock that pauses while the server is busy and cannot receive messages, s."""
        return self._clock() - self._busy_s

    def _find(self, name: str) -> Session:
        session = self._open.get(name)
        if session is not None:
            return session
        if name in self._closed:
            why = self._closed[name].why
            raise SessionRefused("unknown_session", f"the session is closed: {why}")
        raise SessionRefused("unknown_session", "unknown session; open a session with hello")

    def _close(self, session: Session, failed: Cause | None) -> None:
        self._open.remove(session)
        self.held.drop(session.name)
        self._closed.add(session)
        self._outcomes.add(session)
        self._report(progress_of(session))
        if failed:
            self._outcomes.fail(Failure(failed, session.ended_because))
        write_log = log.warning if failed else log.info
        write_log("session_closed", **names_of(session), reason=session.ended_because)


def _error(code: ErrorCode, message: str, *, fatal: bool = False, seq: int = 0) -> bytes:
    return encode(Error(code=code, message=message, fatal=fatal, seq=seq))
