"""Progress, log fields and results of a session."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog
from msgspec.structs import asdict

from hpcosim_server.errors import ResultsError
from hpcosim_server.record.results import Also, warnings_of, write_results
from hpcosim_server.service.session import Session
from hpcosim_server.service.status import Progress, Status

log = structlog.get_logger()


def progress_of(session: Session) -> Progress:
    """Return the progress of a session."""
    simulation = session.opened.simulation
    return Progress(
        **names_of(session),
        now_s=simulation.now_s,
        jobs_over=simulation.recording.over,
        jobs=session.opened.jobs,
    )


def log_progress(status: Status) -> None:
    """Log the progress of a session. The service logs failures itself."""
    if isinstance(status, Progress):
        log.info("progress", **asdict(status))


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
    """Write the results of a session and log the success.

    Args:
        folder: the results folder.
        session: a session that is over.
        also: additional result writers.
        again: an earlier attempt has failed: do not log the warnings again.

    Returns:
        The error, or None if the results are written.
    """
    record, run = session.opened.simulation.record(), session.opened.run
    for warning in warnings_of(record, run) if not again else ():
        log.warning("run_warning", **names_of(session), warning=warning)
    try:
        write_results(folder, record, run, also)
    except ResultsError as error:
        return error
    log.info("results_written", **names_of(session), folder=str(folder))
    return None
