"""The command `hpcosim serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcosim_cli.errors import RUN_FAILED, errors_in_one_line
from hpcosim_cli.options import SERVER, Force, Formats, Lenient, Seed, Set, overrides_of
from hpcosim_scenarios.shipped import find_scenario


def serve(
    scenarios: Annotated[
        list[Path],
        typer.Argument(
            metavar="SCENARIO...",
            parser=find_scenario,
            help="YAML files, or names of shipped scenarios.",
        ),
    ],
    bind: Annotated[
        str, typer.Option(help="Where to listen; on other than the loopback, at your own risk.")
    ] = SERVER,
    out: Annotated[Path | None, typer.Option(help="Results, in a folder for each session.")] = None,
    force: Force = False,
    once: Annotated[
        bool, typer.Option("--once", help="End after one session, its results in --out itself.")
    ] = False,
    sessions: Annotated[int | None, typer.Option(min=1, help="End after so many sessions.")] = None,
    idle_timeout_s: Annotated[
        float, typer.Option(min=0.1, help="Silence after which a session is dropped, s.")
    ] = 600.0,
    max_message_bytes: Annotated[int, typer.Option(min=1024, help="Size of a message, bytes.")] = 16
    * 2**20,
    max_decisions: Annotated[int, typer.Option(min=1, help="In a message.")] = 100_000,
    max_sessions: Annotated[int, typer.Option(min=1, help="Open at a time.")] = 64,
    max_jobs: Annotated[int, typer.Option(min=1, help="In a session.")] = 2_000_000,
    changes: Set = None,
    seed: Seed = None,
    lenient: Lenient = False,
    formats: Formats = None,
    status_fd: Annotated[
        int | None,
        typer.Option(
            min=0, help="Write progress and failures as JSON lines to this open file descriptor."
        ),
    ] = None,
) -> None:
    """Serve scenarios to schedulers until told to stop; the log is JSON on standard error."""
    with errors_in_one_line():
        from hpcosim_cli.formats import formats_of
        from hpcosim_scenarios.running.formats import writers_of
        from hpcosim_scenarios.running.serving import serve_scenarios
        from hpcosim_scenarios.running.status import writing_to
        from hpcosim_server.service.service import Limits

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
            ),
            overrides=overrides_of(changes, seed, lenient),
            also=writers_of(formats_of(formats)),
            tell=None if status_fd is None else writing_to(status_fd),
        )
    if failures and (once or sessions):
        raise typer.Exit(RUN_FAILED)
