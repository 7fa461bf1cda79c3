"""What becomes of closed sessions: their results are written, and failures are reported.

Results that do not fit on the disk are kept in memory and written again later, for a limited time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpcosim_server import log
from hpcosim_server.service.countdown import Countdown
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.session import Session
from hpcosim_server.service.status import Failure, Status, folder_name, names_of, write_session
from hpcosim_sim.record.results import Also

LIMIT_HINT = "limits.max_partial_results bounds the folders of sessions that end early"

REMEMBERED = 1000
"""Number of closed sessions and of failures that a service keeps."""

FIRST_WAIT_S = 1.0
"""Time from the first to the second attempt to write results, s; later waits double."""

LONGEST_WAIT_S = 60.0


@dataclass(slots=True)
class _Unwritten:
    """A closed session without results.

    Attributes:
        due_s: time of the next attempt to write them, clock s.
        until_s: time after which there is no further attempt, clock s; None: none was made.
        wait_s: time from the last attempt to the next, s.
        is_settled: whether its results are written or lost.
        error: why the results are not written, for the client; empty: no attempt failed.
    """

    session: Session
    due_s: float = 0.0
    until_s: float | None = None
    wait_s: float = FIRST_WAIT_S
    is_settled: bool = False
    error: str = ""


@dataclass(slots=True)
class Outcomes:
    """Writes the results of closed sessions, between requests.

    Attributes:
        failures: the first `REMEMBERED` failures, for the exit status, and the first of lost
            results.
    """

    report: Callable[[Status], None]
    out: Path | None = None
    folder_per_session: bool = True
    also: Sequence[Also] = ()
    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], float] = time.monotonic
    folders: Countdown = field(default_factory=lambda: Countdown(Limits().partial_results))
    failures: list[Failure] = field(default_factory=list)
    _unwritten: list[_Unwritten] = field(default_factory=list)
    _have_lost: bool = False
    _has_warned: bool = False

    def __len__(self) -> int:
        """Return the number of sessions whose results are not written yet."""
        return len(self._unwritten)

    def add(self, session: Session) -> None:
        """Note a session that is over; `write` writes its results."""
        self._unwritten.append(_Unwritten(session))

    def attempt(self, session: Session) -> str:
        """Write the results of a session that was added, before its last reply.

        Returns:
            Why the results are not written, for the client; empty: they are, or none are kept.
        """
        added = next(each for each in self._unwritten if each.session is session)
        added.is_settled = self._write(added, last=False)
        return added.error

    def fail(self, failure: Failure) -> None:
        """Keep and report a failure."""
        first_lost = failure.cause == "results_not_written" and not self._have_lost
        if len(self.failures) < REMEMBERED or first_lost:
            self.failures.append(failure)
        self._have_lost = self._have_lost or first_lost
        self.report(failure)

    def write(self, *, last: bool = False) -> Sequence[Session]:
        """Write the results of the sessions that are over.

        Returns:
            The sessions whose results are written or lost.
        """
        now_s = self.clock()
        due = [each for each in self._unwritten if last or each.due_s <= now_s]
        settled = [each for each in due if each.is_settled or self._write(each, last=last)]
        self._unwritten = [each for each in self._unwritten if each not in settled]
        return [each.session for each in settled]

    def _write(self, unwritten: _Unwritten, *, last: bool) -> bool:
        """Write the results of a session; return False if there will be another attempt."""
        session = unwritten.session
        if self.out is None or (self.folder_per_session and not self._is_kept(unwritten)):
            session.results_written = True
            return True
        folder = self.out / folder_name(session) if self.folder_per_session else self.out
        error = write_session(folder, session, self.also, again=unwritten.until_s is not None)
        if error is None:
            session.results_written = True
            return True
        why = "its disk is full" if error.disk_full else "see results_not_written in its log"
        unwritten.error = f"the server has not written the results of {session.label}: {why}"
        if error.disk_full and not last and self._postpone(unwritten):
            unwritten.error += f"; it tries again for up to {self.limits.results_retry_s:g} s"
            wait_s = unwritten.wait_s
            log.warning(
                "results_wait", **names_of(session), error=str(error), next_attempt_in_s=wait_s
            )
            return False
        log.error("results_not_written", **names_of(session), error=str(error))
        self.fail(Failure("results_not_written", str(error), error.metrics))
        return True

    def _postpone(self, unwritten: _Unwritten) -> bool:
        """Plan the next attempt; return False if there is none."""
        now_s, retry_s = self.clock(), self.limits.results_retry_s
        if unwritten.until_s is None:
            waiting = sum(each.until_s is not None for each in self._unwritten)
            if waiting >= self.limits.sessions:  # each of them keeps its simulation in memory
                return False
            unwritten.until_s = now_s + retry_s
        else:
            unwritten.wait_s = min(2.0 * unwritten.wait_s, LONGEST_WAIT_S)
        if now_s >= unwritten.until_s:
            return False
        unwritten.due_s = min(now_s + unwritten.wait_s, unwritten.until_s)
        return True

    def _is_kept(self, unwritten: _Unwritten) -> bool:
        """Return whether a session gets a folder; clients must not fill the disk with them."""
        session = unwritten.session
        if session.opened.run.complete or unwritten.until_s is not None:
            return True
        if self.folders.take():
            return True
        if not self._has_warned:
            log.warning("results_no_longer_written", of="partial sessions", hint=LIMIT_HINT)
        self._has_warned = True
        return False
