"""The command `hpcosim serve`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

import typer

from hpcosim_cli.checks import listening_address, scenario_files
from hpcosim_cli.errors import RUN_FAILED, errors_in_one_line
from hpcosim_cli.live import Http, HttpToken, Speed
from hpcosim_cli.options import SERVER, Force, Formats, Lenient, Seed, Set, overrides_of
from hpcosim_cli.parent import Parent

LIMITS = "Limits"
MIB = 2**20
JOURNAL = "Journal"

SyncWhen = Literal["always", "interval", "never"]

Scenarios = Annotated[
    list[Path],
    typer.Argument(
        metavar="SCENARIO...",
        help="Scenario files (YAML) or names of shipped scenarios.",
        callback=scenario_files,
    ),
]
Bind = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        callback=listening_address,
        help="Address to listen at. One that other machines may reach needs --keys.",
    ),
]
ServerKeys = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        metavar="DIR",
        help="Folder of the server's keys, as `hpcosim keygen` makes it: only clients whose keys "
        "are in it can connect. Default: no keys.",
    ),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure", help="Listen without keys at an address that other machines may reach."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder for results, with a subfolder per session. Default: none."),
]
Once = Annotated[
    bool, typer.Option("--once", help="Exit after one session; write its results to --out itself.")
]
Sessions = Annotated[
    int | None, typer.Option(min=1, help="Exit after this many sessions. Default: never.")
]
StatusFd = Annotated[
    int | None,
    typer.Option(
        min=0, help="Write progress and failures as JSON lines to this open file descriptor."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1024,
        help="Processes for sessions, started when they are needed. 1: one process for all. "
        "Default: one for each session that can be open; 1 with --once or --http.",
    ),
]
Drain = Annotated[
    float,
    typer.Option(
        min=0.1, help="Time after a stop in which requests end and results are written, in s."
    ),
]
Journal = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        rich_help_panel=JOURNAL,
        help="Folder of journals, from which --resume restores sessions. "
        "Default: .journal in --out, or none without --out or with --once.",
    ),
]
NoJournal = Annotated[
    bool, typer.Option("--no-journal", rich_help_panel=JOURNAL, help="Keep no journal.")
]
Resume = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        rich_help_panel=JOURNAL,
        help="Folder of journals whose open sessions are restored, and go on.",
    ),
]
Sync = Annotated[
    SyncWhen,
    typer.Option(
        rich_help_panel=JOURNAL,
        help="When a record is on the disk, in case the machine fails: before its reply is sent, "
        "about every second, or when the operating system writes it.",
    ),
]
IdleTimeout = Annotated[
    float,
    typer.Option(
        min=0.1,
        rich_help_panel=LIMITS,
        help="Close a session after this silence, in s.",
    ),
]
MaxMessageBytes = Annotated[
    int, typer.Option(min=1024, rich_help_panel=LIMITS, help="Size of a message, in bytes.")
]
MaxDecisions = Annotated[
    int, typer.Option(min=1, rich_help_panel=LIMITS, help="Decisions in a message.")
]
MaxSessions = Annotated[
    int, typer.Option(min=1, rich_help_panel=LIMITS, help="Sessions that are open together.")
]
MaxJobs = Annotated[int, typer.Option(min=1, rich_help_panel=LIMITS, help="Jobs of a scenario.")]
MaxTotalJobs = Annotated[
    int, typer.Option(min=1, rich_help_panel=LIMITS, help="Jobs of all open sessions together.")
]
FirstRequestTimeout = Annotated[
    float,
    typer.Option(
        min=0.1,
        rich_help_panel=LIMITS,
        help="Close a session without a first request after this time, in s; it counts as never "
        "opened.",
    ),
]
MaxElapsed = Annotated[
    float,
    typer.Option(min=0.0, rich_help_panel=LIMITS, help="elapsed_s of a request, in simulated s."),
]
MaxSimulated = Annotated[
    float | None,
    typer.Option(
        min=0.0, rich_help_panel=LIMITS, help="Simulated time of a session, in s. Default: none."
    ),
]
MaxEventsPerS = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        rich_help_panel=LIMITS,
        help="Events that a session gets per second; replies wait. Default: none.",
    ),
]
MaxMemory = Annotated[
    int,
    typer.Option(
        min=0,
        rich_help_panel=LIMITS,
        help="Memory of each process of the server, in MiB, with which it refuses new sessions. 0: "
        "none.",
    ),
]
MinFree = Annotated[
    int,
    typer.Option(
        min=0,
        rich_help_panel=LIMITS,
        help="Available memory of the machine or container, in MiB, that a new session needs.",
    ),
]
MaxKept = Annotated[
    int,
    typer.Option(
        min=0,
        rich_help_panel=LIMITS,
        help="Size of the last replies that are kept of closed sessions, in MiB.",
    ),
]
MaxPartial = Annotated[
    int,
    typer.Option(min=0, rich_help_panel=LIMITS, help="Results folders of sessions that end early."),
]
AllowOverride = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-override",
        metavar="PATTERN",
        rich_help_panel=LIMITS,
        help="Paths of the scenario that clients may change, such as 'workload.load' or "
        "'scheduler.*'. Repeatable. Default: all but files of the server.",
    ),
]
NoOverrides = Annotated[
    bool,
    typer.Option(
        "--no-overrides", rich_help_panel=LIMITS, help="Clients may change nothing but the seed."
    ),
]


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
    journal: Journal = None,
    no_journal: NoJournal = False,
    resume: Resume = None,
    sync: Sync = "interval",
    idle_timeout_s: IdleTimeout = 600.0,
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

    SIGTERM and Ctrl-C stop the server with exit status 0. With --once or --sessions it is 1 if a
    session failed before.
    """
    with errors_in_one_line():
        from hpcosim_cli.formats import formats_of
        from hpcosim_cli.live import serving_live
        from hpcosim_protocol.keys import read_server_keys
        from hpcosim_scenarios.errors import ScenariosError
        from hpcosim_scenarios.running.formats import writers_of
        from hpcosim_scenarios.running.serving import JournalFolder, serve_scenarios
        from hpcosim_scenarios.running.status import writing_to
        from hpcosim_server.service.keys import Access
        from hpcosim_server.service.limits import Limits

        if no_overrides and allow_override:
            raise ScenariosError("expected either --allow-override or --no-overrides")
        if once and sessions:
            raise ScenariosError("expected either --once or --sessions")
        if http is not None and workers not in (None, 1):
            what = f"--http shows sessions of one process; expected --workers 1, got {workers}"
            raise ScenariosError(what)
        one_process = once or http is not None
        most_workers = 1 if one_process else min(max_sessions, sessions or max_sessions, 1024)
        if sum((journal is not None, no_journal, resume is not None)) > 1:
            raise ScenariosError("expected one of --journal, --no-journal and --resume")
        folder = journal or resume
        if folder is None and out is not None and not (once or no_journal):
            folder = out / ".journal"
        tell = None if status_fd is None else writing_to(status_fd)
        source = context.get_parameter_source("http_token")
        given = source is not None and source.name == "COMMANDLINE"
        with serving_live(http, http_token, speed, tell, token_given=given) as watch:
            failures = serve_scenarios(
                scenarios,
                bind,
                out=out,
                force=force,
                sessions=1 if once else sessions,
                folder_per_session=not once,
                limits=Limits(
                    message_bytes=max_message_bytes,
                    decisions=max_decisions,
                    sessions=max_sessions,
                    jobs=max_jobs,
                    idle_s=idle_timeout_s,
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
                overrides=overrides_of(changes, seed, lenient),
                also=writers_of(formats_of(formats)),
                tell=tell,
                watch=watch,
                allowed=() if no_overrides else allow_override,
                access=Access(read_server_keys(keys) if keys else None, insecure),
                workers=workers or most_workers,
                parent=parent,
                drain_s=drain_s,
                journal=JournalFolder(folder, sync, resume is not None) if folder else None,
            )
    failed = any(failure.cause != "stopped" for failure in failures)  # a stop is no failure
    if failed and (once or sessions):
        raise typer.Exit(RUN_FAILED)
