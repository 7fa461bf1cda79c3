"""The service: independent sessions, encoded messages in, encoded replies out, no socket."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hpcosim_protocol import (
    Decisions,
    Error,
    GetStatus,
    Hello,
    ServerStatus,
    encode,
)
from hpcosim_server.errors import SessionRefused
from hpcosim_server.journal.store import Journals
from hpcosim_server.service.admission import Admission, SessionFactory, decode_request, error_reply
from hpcosim_server.service.countdown import Countdown, IdleClock
from hpcosim_server.service.held_replies import Envelope, HeldReplies
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.memory import Garbage
from hpcosim_server.service.observer import Ticker, Watch
from hpcosim_server.service.outcomes import REMEMBERED, Outcomes
from hpcosim_server.service.request_handler import (
    RequestHandler,
    ServiceState,
    SessionCloser,
    SessionOpener,
)
from hpcosim_server.service.session import Session
from hpcosim_server.service.session_journals import SessionJournals
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
    progress_of,
)
from hpcosim_server.service.vitals import MEMORY_INTERVAL_S, StorageStatus, Vitals
from hpcosim_sim.record.results import Also

PROGRESS_INTERVAL_S = 0.25


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
        watch: an observer of the sessions, and their pace; None: no observer, as fast as possible.
        journals: the folder of journals of the sessions; None: no journal is kept.
        realtime: simulated seconds per wall-clock second of sessions in real time, see `RealTime`;
            None: they are not in real time.
        totals: what all processes of the server use together; None: this process is the server.
        folders: how many sessions that end early still get a folder, of all processes; None: as
            the limits say.

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
        kept = StorageStatus(journals, out is not None)
        self.vitals = Vitals(report or ProgressLog(), kept, scenarios, self.limits.sessions, clock)
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
            folders=folders,
        )
        self._clock = clock
        self._idle_clock = IdleClock(clock)
        self._observer = watch.observer if watch else None
        self._ticker = Ticker(watch.observer.ticked, clock) if watch else None
        state = ServiceState(
            self.limits,
            clock,
            self._idle_clock,
            self._open,
            self.held,
            self.closed,
            self._journals,
        )
        self._admission = Admission(self.limits, self._open, self._left, new_session, totals)
        self._opener = SessionOpener(state, self._admission, name, realtime, watch)
        self._garbage = Garbage()
        self._closer = SessionCloser(
            state, self._left, self._outcomes, self.vitals, self._observer, self._garbage
        )
        self._handler = RequestHandler(state, self._opener, self._closer)
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

    def status(self) -> ServerStatus:
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
        if isinstance(message, GetStatus):
            return encode(self.status())
        if self._stopped:
            return error_reply("shutting_down", self._stopped, fatal=True)
        if isinstance(message, Error):
            return encode(message)
        seq = message.seq if isinstance(message, Decisions) else 0
        try:
            return self._handler.reply(message, data, envelope)
        except SessionRefused as refused:
            self.vitals.refused += isinstance(message, Hello)
            return error_reply(refused.code, refused.what, seq=seq)
        except Exception as error:  # a bug in one session must not end the others
            session = self._open.get("" if isinstance(message, Hello) else message.session)
            what = log_internal_error(error, session)
            if session is not None:
                session.end(what)
                self._closer.close(session, "internal_error")
            told = "internal error; see the server's log"
            return error_reply("internal_error", told, fatal=True, seq=seq)

    def tidy(self, *, last: bool = False) -> None:
        """Write results, report progress, close idle sessions. Call it between requests.

        Args:
            last: results that do not fit on the disk are lost; there is no further attempt.
        """
        self._closer.write_results(last=last)
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
            self._closer.close_if_silent(session, now_s)

    def adopt(self, session: Session, cause: Cause | None, *, counted: bool = False) -> None:
        """Add a restored session. One that is over is closed, and its results are written.

        Args:
            cause: cause of the end of a session that is over; None: it is complete.
            counted: whether it is among the sessions that the server has opened.
        """
        if not counted:
            self._left.take()
        self._opener.restore(session)
        if session.ended_because:
            self._closer.close(session, cause)

    def stop(self, why: str) -> bool:
        """Close the service. Every further message gets the error `shutting_down`.

        Returns:
            Whether a session was open.
        """
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
            self._closer.close(session, "stopped")
        self.tidy(last=True)
        self._journals.close()
