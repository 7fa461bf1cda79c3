"""The command `hpcosim show top`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from hpcosim.cli.errors import errors_in_one_line
from hpcosim.cli.watched import Results, Server, Session, Token, check_one_source, live_view


def top(
    results: Results = None,
    server: Server = None,
    session: Session = "",
    token: Token = "",
    speed: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            help="Simulated seconds per second of the playback of a results folder. "
            "Default: the run takes a minute.",
        ),
    ] = None,
) -> None:
    """Follow a live run, or play back a results folder, in the terminal."""
    with errors_in_one_line():
        from hpcosim_view.errors import LiveExtraError, SelectionError
        from hpcosim_view.live.top.following import Following
        from hpcosim_view.live.top.source import Playback, Source
        from hpcosim_view.run.folder import read_folder

        check_one_source(results, server, session, token)
        if server is not None and speed is not None:
            raise SelectionError("--speed applies to a results folder; a live run has + and -")
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise SelectionError("top needs a terminal; `hpcosim show squeue` prints a table")
        try:
            from hpcosim_view.live.top.app import Top
        except ImportError:
            what = "`hpcosim show top` needs the package textual: pip install 'hpcosim[live]'"
            raise LiveExtraError(what) from None
        source: Source
        if server is not None:
            view = live_view(server, token)
            source = Following(view, view.session(session).label)
        else:
            assert results is not None
            source = Playback(read_folder(results), speed)
        Top(source).run()
