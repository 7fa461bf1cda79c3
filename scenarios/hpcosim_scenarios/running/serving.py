"""Serve scenarios to schedulers in other processes. Imports no client."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.running.library import Library
from hpcosim_scenarios.running.results import is_incomplete
from hpcosim_scenarios.running.status import log_as_json
from hpcosim_server.errors import BindError
from hpcosim_server.journal.journal_file import SyncPolicy
from hpcosim_server.journal.store import Journals
from hpcosim_server.service.countdown import Countdown
from hpcosim_server.service.observer import LiveProcess, Watch
from hpcosim_server.service.recovery import Recovery
from hpcosim_server.service.server_processes import serve_workers
from hpcosim_server.service.service import Service
from hpcosim_server.service.sessions import Totals
from hpcosim_server.service.socket_loop import ServeOptions, serve
from hpcosim_server.service.status import Failure
from hpcosim_sim.record.folder import prepare
from hpcosim_sim.record.results import Also
from hpcosim_workloads.errors import WorkloadError


class JournalFolder(NamedTuple):
    """A folder of journals."""

    path: Path
    sync: SyncPolicy = "interval"
    resume: bool = False


def serve_scenarios(
    paths: Sequence[Path],
    options: ServeOptions,
    *,
    out: Path | None = None,
    force: bool = False,
    folder_per_session: bool = True,
    overrides: Overrides | None = None,
    also: Sequence[Also] = (),
    watch: Watch | None = None,
    live: LiveProcess | None = None,
    allowed: Sequence[str] | None = None,
    journal: JournalFolder | None = None,
    realtime: float | None = None,
) -> list[Failure]:
    """Serve scenarios until a signal or the last session ends the server; return the failures.

    Args:
        paths: the scenarios' files.
        options: the options of the server. Its `tell` is also called with the errors raised here.
        out: folder for results; None: none are written.
        force: replace the results in an `out` that is not empty; needed only without
            `folder_per_session`, and not for the results of a run that did not complete.
        folder_per_session: write each session's results to a folder of its own in `out`. False:
            write them to `out` itself.
        overrides: values to change in all scenarios, by dotted path.
        watch: an observer of the sessions, and their pace; None: no observer, as fast as possible.
            It needs a server with one worker.
        live: the live page of a server with several workers; None: there is none.
        allowed: patterns of the paths that clients may override, see `Library`.
        journal: the folder of journals of the sessions; None: no journal is kept.
        realtime: simulated seconds per wall-clock second of sessions in real time; None: they are
            not in real time.

    Raises:
        ScenarioError, WorkloadError: a scenario or its workload is invalid.
        BindError: the server cannot listen at the address.
        ResultsFolderError: `out` cannot be used, see `folder.prepare`.
        JournalError: the folder of journals cannot be used.
    """
    log_as_json()
    limits, tell = options.limits, options.tell
    if out is not None:
        # A folder per session is new, so other content of `out` is in no danger.
        prepare(out, force=force or folder_per_session or is_incomplete(out))
    try:
        journals = Journals(journal.path, journal.sync) if journal else None
        most_jobs = min(limits.jobs, limits.total_jobs)  # of one session
        library = Library(paths, overrides, most_jobs, allowed)
        new_service = partial(
            Service,
            library.open,
            limits,
            out,
            sessions=Countdown(options.sessions),
            folder_per_session=folder_per_session,
            also=also,
            journals=journals,
            realtime=realtime,
            scenarios=library.names,
            totals=Totals(),
            folders=Countdown(limits.partial_results),
        )
        recovery = Recovery(journals, resume=bool(journal and journal.resume))
        if options.workers > 1:
            return serve_workers(new_service, options, recovery, live)
        service = new_service(report=tell, watch=watch)
        recovery.recover(service)
        serve(service, options.address, options.parent, options.drain_s, options.access)
    except (ScenarioError, WorkloadError, BindError) as error:
        if tell is not None:
            tell(Failure("no_address" if isinstance(error, BindError) else "bad_input", str(error)))
        raise
    return service.failures
