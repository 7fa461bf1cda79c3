"""The command `hpcosim serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcosim.cli import options
from hpcosim.cli.live import Http, Speed
from hpcosim.cli.usage import RUN_FAILED, errors_in_one_line


def _files(paths: list[Path]) -> list[Path]:
    from hpcosim.cli.server_file import served_files

    return served_files(paths)


Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="Scenarios: YAML files or shipped names; and one file of server settings.",
        callback=_files,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Set a value of the server, such as limits.max_sessions=8, or of the scenarios. "
        "Repeatable.",
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
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1024,
        help="Most processes for sessions. Default: one for each session; 1 with --once.",
    ),
]
Resume = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Restore the open sessions of a folder of journals."),
]


def serve(
    files: Files,
    bind: options.Bind = options.SERVER,
    keys: options.ServerKeys = None,
    insecure: options.Insecure = False,
    seed: options.Seed = None,
    changes: Set = None,
    lenient: options.Lenient = False,
    out: Out = None,
    force: options.Force = False,
    formats: options.Formats = None,
    once: Once = False,
    sessions: Sessions = None,
    workers: Workers = None,
    resume: Resume = None,
    http: Http = None,
    speed: Speed = None,
    parent: options.Parent = None,
) -> None:
    """Serve scenarios to schedulers until stopped, and log as JSON lines on standard error.

    SIGTERM and Ctrl-C stop the server with exit status 0. It is 1 if results of a session could not
    be written, and with --once or --sessions also if a session failed before.
    """
    with errors_in_one_line(sigterm_interrupts=False):
        from hpcosim.cli.live import serving_live
        from hpcosim.cli.server_file import read_settings, split_changes
        from hpcosim_protocol.keys import read_server_keys
        from hpcosim_scenarios.errors import ScenariosError
        from hpcosim_scenarios.running.results import formats_of, writers_of
        from hpcosim_scenarios.running.serving import serve_scenarios
        from hpcosim_scenarios.running.status import writing_to
        from hpcosim_server.service.keys import Access
        from hpcosim_server.service.socket_loop import ServeOptions

        if once and sessions:
            raise ScenariosError("expected either --once or --sessions")
        of_server, overrides = split_changes(options.overrides_of(changes, seed, lenient))
        settings, scenarios = read_settings(files, of_server)
        if settings.realtime is not None and speed is not None:
            raise ScenariosError("expected either realtime or --speed")
        limits = settings.limits.limits()
        most_workers = 1 if once else min(limits.sessions, sessions or limits.sessions, 1024)
        workers = workers or most_workers
        journal = settings.journal_folder(out, resume, once=once)
        tell = None if settings.status_fd is None else writing_to(settings.status_fd)
        with serving_live(http, settings.live.token, speed, tell, has_workers=workers > 1) as live:
            serve_options = ServeOptions(
                bind,
                limits=limits,
                workers=workers,
                sessions=1 if once else sessions,
                tell=tell,
                parent=parent,
                drain_s=settings.drain_s,
                access=Access(read_server_keys(keys) if keys else None, insecure),
            )
            failures = serve_scenarios(
                scenarios,
                serve_options,
                out=out,
                force=force,
                folder_per_session=not once,
                overrides=overrides,
                also=writers_of(formats_of(formats)),
                watch=live.watch,
                live=live.process,
                allowed=settings.limits.allow_override,
                journal=journal,
                realtime=settings.realtime,
            )
    failed = any(failure.cause != "stopped" for failure in failures)  # a stop is no failure
    lost = any(failure.cause == "results_not_written" for failure in failures)
    if lost or (failed and (once or sessions)):
        raise typer.Exit(RUN_FAILED)
