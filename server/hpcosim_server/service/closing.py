"""Closing of sessions: their results are written, and their journals end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from hpcosim_server.service.closed import ClosedSessions
from hpcosim_server.service.countdown import Countdown
from hpcosim_server.service.held import HeldReplies
from hpcosim_server.service.idle_clock import IdleClock
from hpcosim_server.service.journaling import Journaling
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.observer import Observer
from hpcosim_server.service.outcomes import Outcomes
from hpcosim_server.service.reporting import names_of, progress_of
from hpcosim_server.service.session import Session
from hpcosim_server.service.sessions import OpenSessions
from hpcosim_server.service.status import Cause, Failure
from hpcosim_server.service.vitals import Vitals

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Closing:
    """Closes the sessions of a service.

    Attributes:
        sessions: the open sessions.
        left: how many sessions are left to open.
        held: the replies that are held back.
        closed: the sessions that are over.
        outcomes: writes their results.
        journals: the journals of the sessions.
        vitals: counts what fails.
        limits: limits for clients.
        idle_clock: the clock of the idle timeouts.
        clock: returns the wall-clock time, s.
        observer: an observer of the sessions; None: there is none.
    """

    sessions: OpenSessions
    left: Countdown
    held: HeldReplies
    closed: ClosedSessions
    outcomes: Outcomes
    journals: Journaling
    vitals: Vitals
    limits: Limits
    idle_clock: IdleClock
    clock: Callable[[], float]
    observer: Observer | None

    def close(self, session: Session, failed: Cause | None) -> None:
        """Close a session that has ended; `write_results` writes its results.

        Args:
            session: the session.
            failed: cause of its end; None: it is complete, or it was never used.
        """
        self.sessions.remove(session)
        self.held.drop(session.name)
        self.closed.add(session)
        self.outcomes.add(session)
        self.journals.ended(session, failed)
        self.vitals.report(progress_of(session))
        if failed:
            self.outcomes.fail(Failure(failed, session.ended_because))
        write_log = log.warning if failed else log.info
        write_log("session_closed", **names_of(session), reason=session.ended_because)

    def close_if_silent(self, session: Session, now_s: float) -> None:
        """Close a session whose client has been silent for too long.

        Args:
            session: an open session.
            now_s: time of the idle clock, s.
        """
        timeout_s = self.held.idle_timeout_s(session.name, self.limits.idle_s)
        if not session.seq:
            timeout_s = min(timeout_s, self.limits.first_request_s)
        if now_s - max(session.last_message_s, self.held.heard_s(session.name)) <= timeout_s:
            return
        session.end(f"no message from the client for more than {timeout_s:g} s")
        self.close(session, "client_silent" if session.seq else None)
        if not session.seq:  # a stranger must not use up `--once`
            self.sessions.opened -= 1
            self.left.put_back()

    def write_results(self, *, last: bool) -> None:
        """Write the results of the sessions that are over.

        Args:
            last: there will be no further attempt.
        """
        if not self.outcomes:
            return
        with self.idle_clock.busy(self.clock()):
            for session in self.outcomes.write(last=last):
                if session.results_written:
                    self.vitals.results_failing = False
                    self.journals.written(session)
                if self.observer is not None:
                    self.observer.closed(session.label)
            self.vitals.results_failing |= bool(self.outcomes)  # they wait for the next attempt
