"""What `squeue`, `sinfo` and `top` show: a results folder or a session of a live view."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcosim.cli.checks import results_folder

if TYPE_CHECKING:
    from hpcosim_view.live.client import LiveView
    from hpcosim_view.run.frame import Frame

MIDDLE = "50%"


def _optional_results(path: Path | None) -> Path | None:
    return None if path is None else results_folder(path)


Results = Annotated[
    Path | None,
    typer.Argument(
        metavar="[RESULTS]", help="Results folder of a run.", callback=_optional_results
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Live view to ask instead: the URL that `run --watch` or `serve --http` prints.",
    ),
]
Session = Annotated[
    str,
    typer.Option(metavar="LABEL", help="Session of the live view. Default: the only one."),
]
Token = Annotated[
    str,
    typer.Option(
        metavar="TOKEN",
        help="Token of the live view. Default: that of the URL, or the variable "
        "HPCOSIM_HTTP_TOKEN.",
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Simulated time: seconds, 36h, 2d, M:SS, H:MM:SS, D-HH:MM:SS, or a part of the run "
        "such as 50%. Default: the middle of a results folder, now of a live view.",
    ),
]


def check_one_source(results: Path | None, server: str | None, session: str, token: str) -> None:
    """Check that either a results folder or a server is given.

    Raises:
        SelectionError: both or none are given, or a session or a token without a server.
    """
    from hpcosim_view.errors import SelectionError

    if (results is None) == (server is None):
        raise SelectionError("expected either a results folder or --server URL")
    if server is None and (session or token):
        raise SelectionError("--session and --token apply to --server URL, not to a results folder")


def live_view(server: str, token: str) -> LiveView:
    """Return the live view at a URL."""
    from hpcosim_view.live.client import TOKEN_VARIABLE, LiveView

    return LiveView(server, token or os.environ.get(TOKEN_VARIABLE, ""))


def run_and_time(
    results: Path | None, server: str | None, session: str, token: str, at: str | None
) -> tuple[Frame, float]:
    """Return a run, and the time at which it is shown, s.

    Standard error states the time if none is given for a results folder.

    Args:
        results: a results folder; None: ask the server.
        server: URL of a live view; None: read the folder.
        session: label of a session; empty: the only one.
        token: token of the live view; empty: that of the environment.
        at: the time; None: the middle of a results folder, now of a live view.
    """
    from hpcosim_view.run.folder import read_folder
    from hpcosim_view.terminal.squeue import time_in

    if server is not None:
        view = live_view(server, token)
        frame = view.run(view.session(session).label)
        return frame, time_in(frame, at) if at else float(frame.about["now_s"])
    assert results is not None
    frame = read_folder(results)
    at_s = time_in(frame, at or MIDDLE)
    if at is None:
        what = f"at {at_s:.15g} s, the middle of the run; --at TIME shows another time"
        sys.stderr.write(f"{what}\n")
    return frame, at_s
