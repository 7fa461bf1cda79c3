"""What becomes of closed sessions: their results are written, and failures are reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from hpcosim_server.record.results import Also
from hpcosim_server.service.reporting import folder_name, write_session
from hpcosim_server.service.session import Session
from hpcosim_server.service.status import Failure, Status

log = structlog.get_logger()

UNUSED = 100
"""Number of sessions without a request whose results go to folders of their own."""

LIMIT_HINT = "--max-partial-results bounds the folders of sessions that end early"

REMEMBERED = 1000
"""Number of closed sessions and of failures that a service keeps."""


class Outcomes:
    """Writes the results of closed sessions, between requests.

    Args:
        report: receives each failure.
        out: folder for results; None: no results are written.
        folder_per_session: whether each session has its own folder in `out`; otherwise the results
            go to `out` itself.
        also: additional result writers.
        most_partial: maximum number of sessions that end early whose results go to folders of their
            own.

    Attributes:
        failures: the first `REMEMBERED` failures, for the exit status.
    """

    def __init__(
        self,
        report: Callable[[Status], None],
        out: Path | None = None,
        *,
        folder_per_session: bool = True,
        also: Sequence[Also] = (),
        most_partial: int = REMEMBERED,
    ) -> None:
        self.failures: list[Failure] = []
        self._report = report
        self._out = out
        self._folder_per_session = folder_per_session
        self._also = also
        self._folders_left = {"partial": most_partial, "unused": min(UNUSED, most_partial)}
        self._to_write: list[Session] = []

    def __len__(self) -> int:
        """Return the number of sessions whose results are not written yet."""
        return len(self._to_write)

    def add(self, session: Session) -> None:
        """Note a session that is over; `write` writes its results."""
        self._to_write.append(session)

    def fail(self, failure: Failure) -> None:
        """Keep and report a failure."""
        if len(self.failures) < REMEMBERED:
            self.failures.append(failure)
        self._report(failure)

    def write(self) -> Sequence[Session]:
        """Write the results of the sessions that are over, and return these sessions."""
        finished, self._to_write = self._to_write, []
        for session in finished:
            self._write(session)
        return finished

    def _write(self, session: Session) -> None:
        if self._out is not None and (not self._folder_per_session or self._is_kept(session)):
            folder = self._out / folder_name(session) if self._folder_per_session else self._out
            if failure := write_session(folder, session, self._also):
                self.fail(failure)
                return
        session.results_written = True

    def _is_kept(self, session: Session) -> bool:
        """Return whether a session gets a folder; clients must not fill the disk with them."""
        if session.opened.run.complete:
            return True
        kind = "partial" if session.seq else "unused"
        self._folders_left[kind] -= 1
        if self._folders_left[kind] == -1:
            log.warning("results_no_longer_written", of=f"{kind} sessions", hint=LIMIT_HINT)
        return self._folders_left[kind] >= 0
