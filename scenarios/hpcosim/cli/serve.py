"""The command `hpcosim serve`."""

from __future__ import annotations

import math

import typer

from hpcosim.cli.errors import RUN_FAILED, errors_in_one_line
from hpcosim.cli.live import Http, HttpToken, Realtime, Speed
from hpcosim.cli.options import SERVER, Force, Formats, Lenient, Seed, Set, overrides_of
from hpcosim.cli.parent import Parent
from hpcosim.cli.serve_options import (
    AllowOverride,
    Bind,
    Drain,
    FirstRequestTimeout,
    IdleTimeout,
    Insecure,
    Journal,
    MaxDecisions,
    MaxElapsed,
    MaxEventsPerS,
    MaxJobs,
    MaxKept,
    MaxMemory,
    MaxMessageBytes,
    MaxPartial,
    MaxSessions,
    MaxSimulated,
    MaxTotalJobs,
    MinFree,
    NoJournal,
    NoOverrides,
    Once,
    Out,
    ResultsRetry,
    Resume,
    Scenarios,
    ServerKeys,
    Sessions,
    StatusFd,
    Sync,
    Workers,
)

MIB = 2**20


def serve(
    context: typer.Context,
    scenarios: Scenarios,
    bind: Bind = SERVER,
    keys: ServerKeys = None,
    insecure: Insecure = False,
    seed: Seed = None,
    changes: Set = None,
    lenient: Lenient = False,
    out: Out = None,
    force: Force = False,
    formats: Formats = None,
    once: Once = False,
    sessions: Sessions = None,
    workers: Workers = None,
    drain_s: Drain = 300.0,
    parent: Parent = None,
    status_fd: StatusFd = None,
    http: Http = None,
    http_token: HttpToken = None,
    speed: Speed = None,
    realtime: Realtime = None,
    journal: Journal = None,
    no_journal: NoJournal = False,
    resume: Resume = None,
    sync: Sync = "interval",
    idle_timeout_s: IdleTimeout = 600.0,
    results_retry_s: ResultsRetry = 600.0,
    max_message_bytes: MaxMessageBytes = 16 * 2**20,
    max_decisions: MaxDecisions = 100_000,
    max_sessions: MaxSessions = 64,
    max_jobs: MaxJobs = 2_000_000,
    max_total_jobs: MaxTotalJobs = 8_000_000,
    first_request_timeout_s: FirstRequestTimeout = 60.0,
    max_elapsed_s: MaxElapsed = 1e6,
    max_simulated_s: MaxSimulated = None,
    max_events_per_s: MaxEventsPerS = None,
    max_memory_mb: MaxMemory = 0,
    min_free_mb: MinFree = 128,
    max_kept_mb: MaxKept = 64,
    max_partial_results: MaxPartial = 1000,
    allow_override: AllowOverride = None,
    no_overrides: NoOverrides = False,
) -> None:
    """Serve scenarios to schedulers until stopped, and log as JSON lines on standard error.

    SIGTERM and Ctrl-C stop the server with exit status 0. It is 1 if results of a session could not
    be written, and with --once or --sessions also if a session failed before.
    """
    with errors_in_one_line(sigterm_interrupts=False):
        from hpcosim.cli.formats import formats_of
        from hpcosim.cli.live import check_realtime, serving_live
        from hpcosim_protocol.keys import read_server_keys
        from hpcosim_scenarios.errors import ScenariosError
        from hpcosim_scenarios.running.formats import writers_of
        from hpcosim_scenarios.running.serving import JournalFolder, serve_scenarios
        from hpcosim_scenarios.running.status import writing_to
        from hpcosim_server.service.keys import Access
        from hpcosim_server.service.limits import Limits
        from hpcosim_server.service.options import ServeOptions

        if no_overrides and allow_override:
            raise ScenariosError("expected either --allow-override or --no-overrides")
        if once and sessions:
            raise ScenariosError("expected either --once or --sessions")
        check_realtime(realtime, speed)
        most_workers = 1 if once else min(max_sessions, sessions or max_sessions, 1024)
        workers = workers or most_workers
        if sum((journal is not None, no_journal, resume is not None)) > 1:
            raise ScenariosError("expected one of --journal, --no-journal and --resume")
        folder = journal or resume
        if folder is None and out is not None and not (once or no_journal):
            folder = out / ".journal"
        tell = None if status_fd is None else writing_to(status_fd)
        source = context.get_parameter_source("http_token")
        given = source is not None and source.name == "COMMANDLINE"
        with serving_live(
            http, http_token, speed, tell, token_given=given, has_workers=workers > 1
        ) as live:
            options = ServeOptions(
                bind,
                limits=Limits(
                    message_bytes=max_message_bytes,
                    decisions=max_decisions,
                    sessions=max_sessions,
                    jobs=max_jobs,
                    idle_s=idle_timeout_s,
                    results_retry_s=results_retry_s,
                    total_jobs=max_total_jobs,
                    first_request_s=first_request_timeout_s,
                    elapsed_s=max_elapsed_s,
                    simulated_s=math.inf if max_simulated_s is None else max_simulated_s,
                    events_per_s=math.inf if max_events_per_s is None else max_events_per_s,
                    memory_bytes=max_memory_mb * MIB,
                    free_bytes=min_free_mb * MIB,
                    kept_bytes=max_kept_mb * MIB,
                    partial_results=max_partial_results,
                ),
                workers=workers,
                sessions=1 if once else sessions,
                tell=tell,
                parent=parent,
                drain_s=drain_s,
                access=Access(read_server_keys(keys) if keys else None, insecure),
            )
            failures = serve_scenarios(
                scenarios,
                options,
                out=out,
                force=force,
                folder_per_session=not once,
                overrides=overrides_of(changes, seed, lenient),
                also=writers_of(formats_of(formats)),
                watch=live.watch,
                live=live.process,
                allowed=() if no_overrides else allow_override,
                journal=JournalFolder(folder, sync, resume is not None) if folder else None,
                realtime=realtime,
            )
    failed = any(failure.cause != "stopped" for failure in failures)  # a stop is no failure
    lost = any(failure.cause == "results_not_written" for failure in failures)
    if lost or (failed and (once or sessions)):
        raise typer.Exit(RUN_FAILED)
