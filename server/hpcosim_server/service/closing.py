"""Closing of sessions: their results are written, and their journals end."""

from __future__ import annotations

from dataclasses import dataclass

from hpcosim_server import log
from hpcosim_server.service.countdown import Countdown
from hpcosim_server.service.garbage import Garbage
from hpcosim_server.service.observer import Observer
from hpcosim_server.service.outcomes import Outcomes
from hpcosim_server.service.reporting import names_of, progress_of
from hpcosim_server.service.session import Session
from hpcosim_server.service.shared import Shared
from hpcosim_server.service.status import Cause, Failure
from hpcosim_server.service.vitals import Vitals

CLIENT_WENT = ("client_left", "client_silent")


@dataclass(frozen=True, slots=True)
class Closing:
    """Closes the sessions of a service.

    Attributes:
        shared: what it shares with the rest of the service.
        left: how many sessions are left to open.
        outcomes: writes the results of closed sessions.
        vitals: counts what fails.
        observer: an observer of the sessions; None: there is none.
        garbage: frees the simulations of closed sessions.
    """

    shared: Shared
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
            session: the session.
            failed: cause of its end; None: it is complete.
        """
        self.shared.sessions.remove(session)
        self.shared.held.drop(session.name)
        self.shared.closed.add(session)
        if failed in CLIENT_WENT and not session.seq:
            self._forget(session)
            return
        self.outcomes.add(session)
        self.shared.journals.ended(session, failed)
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
            session: the session.
            answer: the encoded `simulation_ended`.
        """
        began_s = self.shared.clock()
        error = self.outcomes.attempt(session)
        self.shared.idle_clock.note_work(began_s)
        if not error:
            return answer
        told = session.tell_results_error(error)
        self.shared.closed.add(session)
        return told

    def close_if_silent(self, session: Session, now_s: float) -> None:
        """Close a session whose client has been silent for too long.

        Args:
            session: an open session.
            now_s: time of the idle clock, s.
        """
        timeout_s = self.shared.held.idle_timeout_s(session.name, self.shared.limits.idle_s)
        if not session.seq:
            timeout_s = min(timeout_s, self.shared.limits.first_request_s)
        if now_s - max(session.last_message_s, self.shared.held.heard_s(session.name)) <= timeout_s:
            return
        session.end(f"no message from the client for more than {timeout_s:g} s")
        self.close(session, "client_silent")

    def _forget(self, session: Session) -> None:
        """Treat a closed session as one that was never opened."""
        self.shared.journals.dropped(session)
        self.shared.sessions.opened -= 1
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
        began_s = self.shared.clock()
        for session in self.outcomes.write(last=last):
            self.garbage.note_dropped()
            if session.results_written:
                self.vitals.results_failing = False
                self.shared.journals.written(session)
            if self.observer is not None:
                self.observer.closed(session.label)
        self.vitals.results_failing |= bool(self.outcomes)  # they wait for the next attempt
        self.shared.idle_clock.note_work(began_s)
