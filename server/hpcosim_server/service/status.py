"""Progress, failures and results of sessions, for the log and the program that runs it."""

from __future__ import annotations

import re
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict

from hpcosim_server import log
from hpcosim_server.service.session import Session
from hpcosim_sim.errors import ResultsError
from hpcosim_sim.record.results import Also, warnings_of, write_results

Cause = Literal[
    "bad_input",
    "client_left",
    "client_silent",
    "internal_error",
    "no_address",
    "results_not_written",
    "simulation_stuck",
    "stopped",
]
"""Machine-readable cause of a failure.

`bad_input`: a scenario or workload is invalid. `no_address`: the server cannot listen at its
address. `client_left`: the client sent `bye` before the end. `client_silent`: no message within
`Limits.idle_s`. `simulation_stuck`: see `SimulationStuck`. `stopped`: the server stopped before
the end of the session. `results_not_written`: see `ResultsError`. `internal_error`: a bug of the
server.
"""

MOST_INTERVAL_S = 60.0
MOST_SESSIONS = 1024  # whose last line is remembered


class Progress(Struct, frozen=True, tag_field="status", tag="progress"):
    """Progress of the simulation of a session.

    Attributes:
        jobs_over: number of jobs that have ended or were rejected.
    """

    session: str
    scenario: str
    scheduler: str
    now_s: float
    jobs_over: int
    jobs: int


class Failure(Struct, frozen=True, omit_defaults=True, tag_field="status", tag="failure"):
    """A server that cannot start, or a session that ended early or whose results are lost."""

    cause: Cause
    why: str
    metrics: Mapping[str, int | float] | None = None


class LivePage(Struct, frozen=True, tag_field="status", tag="page"):
    """The page of the live view (`--http`)."""

    url: str
    viewed: bool = False


Status = Progress | Failure | LivePage


def progress_of(session: Session) -> Progress:
    """Return the progress of a session."""
    simulation = session.opened.simulation
    return Progress(
        **names_of(session),
        now_s=simulation.now_s,
        jobs_over=simulation.recording.over,
        jobs=session.opened.jobs,
    )


class ProgressLog:
    """Logs the progress of sessions. The service logs failures itself."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next: OrderedDict[str, tuple[float, float]] = OrderedDict()  # time, interval

    def __call__(self, status: Status) -> None:
        """Log a progress, unless the session has had a line just now."""
        if not isinstance(status, Progress):
            return
        now_s = self._clock()
        due_s, interval_s = self._next.get(status.session, (now_s, 1.0))
        if now_s < due_s:
            return
        self._next[status.session] = now_s + interval_s, min(2.0 * interval_s, MOST_INTERVAL_S)
        self._next.move_to_end(status.session)
        if len(self._next) > MOST_SESSIONS:
            self._next.popitem(last=False)
        log.info("progress", **asdict(status))


def log_internal_error(error: Exception, session: Session | None) -> str:
    """Log a bug without the secret name of a session; return a short description.

    The traceback has no local variables: they have names of sessions and contents of messages.
    """
    text = "".join(traceback.format_exception(error))
    what = f"internal error: {error!r}"
    if session is not None:
        text, what = (part.replace(session.name, session.label) for part in (text, what))
    if isinstance(error, MemoryError):
        what = "internal error: no memory is left for the session (limits.max_memory_mb)"
    log.error("internal_error", error=what, traceback=text)
    return what


def names_of(session: Session) -> Mapping[str, str]:
    """Return the log fields that identify a session."""
    run = session.opened.run
    return {
        "session": session.label,
        "scenario": run.scenario,
        "scheduler": run.scheduler,
    }


def folder_name(session: Session) -> str:
    """Return the name of a session's results folder.

    Characters other than letters, digits, `_` and `-` are replaced, so names from the client
    cannot form a path.
    """
    run = session.opened.run
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", f"{run.scenario}-{run.scheduler}")
    return f"{plain[:80]}-{session.label}"


def write_session(
    folder: Path, session: Session, also: Sequence[Also], *, again: bool = False
) -> ResultsError | None:
    """Write the results of a session and log the success."""
    record, run = session.opened.simulation.record(), session.opened.run
    for warning in warnings_of(record, run) if not again else ():
        log.warning("run_warning", **names_of(session), warning=warning)
    try:
        write_results(folder, record, run, also)
    except ResultsError as error:
        return error
    log.info("results_written", **names_of(session), folder=str(folder))
    return None
