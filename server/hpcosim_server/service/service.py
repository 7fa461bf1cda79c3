"""The service: independent sessions, encoded messages in, encoded replies out, no socket."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import hpcosim_protocol as protocol
from hpcosim_server import log
from hpcosim_server.errors import SessionRefused
from hpcosim_server.journal.store import Journals
from hpcosim_server.service.admission import (
    Admission,
    SessionFactory,
    decode_request,
    error_reply,
    options_of,
)
from hpcosim_server.service.countdown import Countdown, IdleClock
from hpcosim_server.service.held_replies import Envelope, HeldReplies, HeldReply
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.memory import Garbage
from hpcosim_server.service.observer import Ticker, Watch
from hpcosim_server.service.outcomes import REMEMBERED, Outcomes
from hpcosim_server.service.pace import EventRate, Pace, RealTime
from hpcosim_server.service.session import Session
from hpcosim_server.service.session_journals import SessionJournals, history_of
from hpcosim_server.service.sessions import (
    ClosedSessions,
    Counts,
    NewName,
    OpenSessions,
    Totals,
    new_name,
)
from hpcosim_server.service.status import (
    Cause,
    Failure,
    ProgressLog,
    Status,
    log_internal_error,
    names_of,
    progress_of,
)
from hpcosim_server.service.vitals import MEMORY_INTERVAL_S, Vitals
from hpcosim_server.wire.listener import address_of
from hpcosim_sim.record.results import Also

PROGRESS_INTERVAL_S = 0.25
CLIENT_WENT = ("client_left", "client_silent")


class Service:
    """Replies to messages and writes the results of closed sessions.

    Args:
        out: folder for results; None: no results are written.
        sessions: total number of sessions that the service opens, or the number that it shares with
            other processes; None: unlimited.
        folder_per_session: whether each session has its own folder in `out`; otherwise the results
            go to `out` itself.
        also: additional result writers.
        report: receives each failure immediately and the progress of each active session every
            `PROGRESS_INTERVAL_S`; None: progress goes to the log.
        journals: the folder of journals of the sessions; None: no journal is kept.
        realtime: simulated seconds per wall-clock second of sessions in real time, see `RealTime`;
            None: they are not in real time.
        totals: what all processes of the server use together; None: this process is the server.

    Attributes:
        closed: the sessions that are over, or that could not be restored.
    """

    def __init__(
        self,
        new_session: SessionFactory,
        limits: Limits | None = None,
        out: Path | None = None,
        *,
        sessions: int | Countdown | None = None,
        folder_per_session: bool = True,
        also: Sequence[Also] = (),
        report: Callable[[Status], None] | None = None,
        watch: Watch | None = None,
        clock: Callable[[], float] = time.monotonic,
        name: NewName = new_name,
        journals: Journals | None = None,
        realtime: float | None = None,
        scenarios: Sequence[str] = (),
        totals: Totals | None = None,
        folders: Countdown | None = None,
    ) -> None:
        totals = totals or Totals()
        self.limits = limits or Limits()
        self.held = HeldReplies()
        self.new_session = new_session
        self.closed = ClosedSessions(REMEMBERED, self.limits.kept_bytes, totals)
        self.vitals = Vitals(
            report or ProgressLog(),
            journals,
            out is not None,
            scenarios,
            self.limits.sessions,
            clock,
        )
        self._open = OpenSessions(totals)
        self._left = sessions if isinstance(sessions, Countdown) else Countdown(sessions)
        self._journals = SessionJournals(journals)
        self._outcomes = Outcomes(
            self.vitals.report,
            out,
            folder_per_session=folder_per_session,
            also=also,
            limits=self.limits,
            clock=clock,
            folders=folders or Countdown(self.limits.partial_results),
        )
        self._clock = clock
        self._idle_clock = IdleClock(clock)
        self._name = name
        self._realtime = realtime
        self._watcher = watch
        self._observer = watch.observer if watch else None
        self._ticker = Ticker(watch.observer.ticked, clock) if watch else None
        self._admission = Admission(self.limits, self._open, self._left, new_session, totals)
        self._garbage = Garbage()
        self._stopped = ""
        self._progress_due_s = self._memory_due_s = 0.0

    @property
    def done(self) -> bool:
        """Whether all sessions that the service opens are closed and their results written."""
        return not self._open and not self._outcomes and self._left.is_over

    @property
    def counts(self) -> Counts:
        """The number of sessions opened, open and over."""
        opened, active = self._open.opened, len(self._open)
        return Counts(opened, active, opened - active - len(self._outcomes))

    @property
    def failures(self) -> list[Failure]:
        """The first `REMEMBERED` failures, for the exit status."""
        return self._outcomes.failures

    def status(self) -> protocol.ServerStatus:
        """Return what the service does."""
        status = self.vitals.status(self._open, self.held, self.counts, self._idle_clock.now_s())
        status.state = "draining" if self._stopped else "serving"
        return status

    def nonces(self) -> list[str]:
        """Return the nonces of the hellos of the open sessions."""
        return self._open.nonces()

    def answer(self, data: bytes, envelope: Envelope = ()) -> bytes:
        """Return the encoded reply to a message. Invalid bytes get an `error` reply.

        Returns:
            The reply, or `HELD`: it is held back, and `due` returns it later with the envelope.
        """
        began_s = self._clock()
        self._idle_clock.note_pause(began_s)
        try:
            return self._answer(data, envelope)
        finally:
            self._idle_clock.note_work(began_s)

    def due(self) -> Sequence[tuple[Envelope, bytes]]:
        """Return the replies that have been held back long enough, with their return addresses."""
        replies = []
        for name, envelope, reply in self.held.due():
            session = self._open.get(name)
            assert session is not None  # a closed session has no held reply
            session.note_message(self._idle_clock.now_s())
            replies.append((envelope, reply))
        return replies

    def _answer(self, data: bytes, envelope: Envelope) -> bytes:
        message = decode_request(data, self.limits.message_bytes)
        if isinstance(message, protocol.GetStatus):
            return protocol.encode(self.status())
        if self._stopped:
            return error_reply("shutting_down", self._stopped, fatal=True)
        if isinstance(message, protocol.Error):
            return protocol.encode(message)
        seq = message.seq if isinstance(message, protocol.Decisions) else 0
        try:
            return self._carry_out(message, data, envelope)
        except SessionRefused as refused:
            self.vitals.refused += isinstance(message, protocol.Hello)
            return error_reply(refused.code, refused.what, seq=seq)
        except Exception as error:  # a bug in one session must not end the others
            session = self._open.get("" if isinstance(message, protocol.Hello) else message.session)
            what = log_internal_error(error, session)
            if session is not None:
                session.end(what)
                self._close(session, "internal_error")
            told = "internal error; see the server's log"
            return error_reply("internal_error", told, fatal=True, seq=seq)

    def tidy(self, *, last: bool = False) -> None:
        """Write results, report progress, close idle sessions. Call it between requests.

        Args:
            last: results that do not fit on the disk are lost; there is no further attempt.
        """
        self._write_results(last=last)
        if self._ticker is not None:
            self._ticker.tick()
        self._journals.tick()
        wall_s = self._clock()
        if not self.done:
            self._garbage.tidy(wall_s)
        self._idle_clock.note_pause(wall_s)
        if wall_s < self._progress_due_s:
            return
        self._progress_due_s = wall_s + PROGRESS_INTERVAL_S
        self._note_status()
        if wall_s >= self._memory_due_s:
            self._memory_due_s = wall_s + MEMORY_INTERVAL_S
            self._admission.note_memory()
        now_s = self._idle_clock.now_s()
        for session in self._open:
            if session.has_progressed(now_s):
                self.vitals.report(progress_of(session))
            self._close_if_silent(session, now_s)

    def adopt(self, session: Session, cause: Cause | None, *, counted: bool = False) -> None:
        """Add a restored session. One that is over is closed, and its results are written.

        Args:
            counted: whether it is among the sessions that the server has opened.
        """
        if not counted:
            self._left.take()
        session.note_message(self._idle_clock.now_s())
        session.limits = self.limits
        self._add(session)
        log.info("session_restored", **names_of(session), seq=session.seq)
        if session.ended_because:
            self._close(session, cause)

    def stop(self, why: str) -> bool:
        """Close the service. Every further message gets the error `shutting_down`."""
        interrupted = bool(self._open)
        self._stopped = why
        self._note_status()
        self.close(why)
        return interrupted

    def _note_status(self) -> None:
        if self._observer is not None:
            self._observer.noted(self.status())

    def close(self, why: str) -> None:
        """Close every open session and write its results. Its journal can restore it."""
        for session in self._open:
            session.end(why)
            self._close(session, "stopped")
        self.tidy(last=True)
        self._journals.close()

    def _carry_out(
        self,
        message: protocol.Hello | protocol.Decisions | protocol.GetHistory | protocol.Bye,
        data: bytes,
        envelope: Envelope,
    ) -> bytes:
        address = address_of(envelope)
        if isinstance(message, protocol.Hello):
            if message.session:
                return self._resume(self._heard(message.session, address), message)
            return self._greet(message, data, address)
        if isinstance(message, protocol.Decisions):
            return self._decide(message, data, envelope)
        if isinstance(message, protocol.GetHistory):
            return protocol.encode(history_of(self._heard(message.session, address), message))
        if message.session not in self.closed:  # or the client did not receive the goodbye
            session = self._find(message.session, address)
            session.end("the client left")
            self._close(session, "client_left")
        return protocol.encode(protocol.Goodbye())

    def _find(self, name: str, address: bytes) -> Session:
        session = self._open.get(name)
        if session is None or not session.belongs_to(address):
            raise self.closed.refusal(name)
        return session

    def _heard(self, name: str, address: bytes) -> Session:
        """Return an open session whose client has sent a message."""
        session = self._find(name, address)
        session.note_message(self._idle_clock.now_s())
        return session

    def _greet(self, hello: protocol.Hello, data: bytes, address: bytes) -> bytes:
        """Return the welcome of a new session, or of the one that a copy of the hello opened."""
        known = self._open.opened_by(hello, address)
        if known is not None:
            return known.welcome()
        opened = self._admission.open(hello)
        try:
            if hello.policy:
                opened.run.policy = hello.policy
            opened.run.realtime = self._realtime
            options, now_s = options_of(opened, self.limits, hello), self._idle_clock.now_s()
            session = Session(self._name(), hello, opened, options, now_s, address, self.limits)
        except BaseException:  # such as MemoryError
            self._admission.put_back()
            raise
        self._journals.opened(session, data, self.limits)
        self._add(session)
        log.info("session_opened", **names_of(session), jobs=opened.jobs, seed=opened.run.seed)
        return session.welcome()

    def _resume(self, session: Session, hello: protocol.Hello) -> bytes:
        if hello.history and session.journal is not None and session.journal.file is not None:
            return session.resume_with_history()
        reply = session.resume()
        self._journals.resumed(session, reply)
        return reply

    def _add(self, session: Session) -> None:
        self._open.add(session)
        session.pace = self._pace_of(session)
        if self._watcher is not None:
            session.pace = session.pace or self._watcher.pace_of(session.opened, self._clock)
            self._watcher.observer.opened(session.label, session.opened, session.pace)

    def _pace_of(self, session: Session) -> Pace | None:
        """Return the pace that the service sets; None: it sets none."""
        if factor := session.opened.run.realtime:
            return RealTime(factor, session.opened.simulation.now_s, self._clock)
        if self.limits.events_per_s < math.inf:
            return EventRate(self.limits.events_per_s, lambda: session.events, self._clock)
        return None

    def _decide(self, request: protocol.Decisions, data: bytes, envelope: Envelope) -> bytes:
        address = address_of(envelope)
        repeated = self.closed.repeated_reply(request, address)
        if repeated is not None:
            return repeated
        session = self._find(request.session, address)
        repeated = self.held.repeated(request, envelope, self._idle_clock.now_s())
        if repeated is not None:
            return repeated
        before, session.address = session.seq, address
        elapsed_s = None
        if isinstance(session.pace, RealTime):
            elapsed_s = max(request.elapsed_s, session.pace.elapsed_s())
        answer = session.decide(request, elapsed_s)
        session.note_message(self._idle_clock.now_s())
        if session.seq > before:
            self._journals.exchanged(session, data, answer, elapsed_s)
        if session.ended_because:
            if session.opened.run.complete:
                self._close(session, None)
                return self._last_reply(session, answer)
            self._close(session, "simulation_stuck")
            return answer
        if session.pace is not None and not session.pace.is_free and session.seq > before:
            return self.held.hold(HeldReply.of(session, session.pace, envelope, request))
        return answer

    def _close(self, session: Session, failed: Cause | None) -> None:
        """Close a session that has ended, because of a failure or complete.

        A session whose client left it, or went away, before its first request does not count: it
        has no results, is no failure, and gives its place back. Strangers that greet must not use
        up `--once`.
        """
        self._open.remove(session)
        self.held.drop(session.name)
        self.closed.add(session)
        if failed in CLIENT_WENT and not session.seq:
            self._forget(session)
            return
        self._outcomes.add(session)
        self._journals.ended(session, failed)
        self.vitals.report(progress_of(session))
        if failed:
            self._outcomes.fail(Failure(failed, session.ended_because))
        write_log = log.warning if failed else log.info
        write_log("session_closed", **names_of(session), reason=session.ended_because)

    def _forget(self, session: Session) -> None:
        """Treat a closed session as one that was never opened."""
        self._journals.dropped(session)
        self._open.opened -= 1
        self._left.put_back()
        self._garbage.note_dropped()
        if self._observer is not None:
            self._observer.closed(session.label)
        log.info("session_unused", **names_of(session), reason=session.ended_because)

    def _last_reply(self, session: Session, answer: bytes) -> bytes:
        """Write the results of a complete session, and return its last reply, which has the error.

        The journal of the session ends after the reply, in `_write_results`: a server that is
        killed in between writes the results again.
        """
        began_s = self._clock()
        error = self._outcomes.attempt(session)
        self._idle_clock.note_work(began_s)
        if not error:
            return answer
        told = session.tell_results_error(error)
        self.closed.add(session)
        return told

    def _close_if_silent(self, session: Session, now_s: float) -> None:
        timeout_s = self.held.idle_timeout_s(session.name, self.limits.idle_s)
        if not session.seq:
            timeout_s = min(timeout_s, self.limits.first_request_s)
        if now_s - max(session.last_message_s, self.held.heard_s(session.name)) <= timeout_s:
            return
        session.end(f"no message from the client for more than {timeout_s:g} s")
        self._close(session, "client_silent")

    def _write_results(self, *, last: bool) -> None:
        if not self._outcomes:
            return
        began_s = self._clock()
        for session in self._outcomes.write(last=last):
            self._garbage.note_dropped()
            if session.results_written:
                self.vitals.results_failing = False
                self._journals.written(session)
            if self._observer is not None:
                self._observer.closed(session.label)
        self.vitals.results_failing |= bool(self._outcomes)  # they wait for the next attempt
        self._idle_clock.note_work(began_s)
