"""The commands `hpcosim show`: a run as a picture, as Slurm's tables, or in the terminal."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcosim.cli.options import Json, ResultsFolder, if_given, output_file, results_folder
from hpcosim.cli.usage import EXAMPLES, CommandGroup, errors_in_one_line, help_of

if TYPE_CHECKING:
    from hpcosim_view.live.client import LiveView
    from hpcosim_view.run.frame import Frame
    from hpcosim_view.terminal.slurm_tables import QueuedJob


app = typer.Typer(
    cls=CommandGroup,
    help="Show a run: its schedule, its jobs and its nodes at a time.",
    no_args_is_help=True,
)


MIDDLE = "50%"


Results = Annotated[
    Path | None,
    typer.Argument(
        metavar="[RESULTS]", help="Results folder of a run.", callback=if_given(results_folder)
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
    """Check that either a results folder or a server is given."""
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
        at: the time; None: the middle of a results folder, now of a live view.
    """
    from hpcosim_view.run.folder import read_folder
    from hpcosim_view.terminal.slurm_tables import time_in

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


def draw(
    results: ResultsFolder,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Path of the images without extension. Default: RESULTS/schedule.",
            callback=output_file,
        ),
    ] = None,
) -> None:
    """Draw the schedule (Gantt chart), power and queue length of a run, as PNG and SVG."""
    with errors_in_one_line():
        from hpcosim.cli.printing import print_warning
        from hpcosim_scenarios.running.results import why_incomplete
        from hpcosim_view.figure import draw_schedule

        if reason := why_incomplete(results):
            print_warning(f"{results} has incomplete results: {reason}")
        for path in draw_schedule(results, out or results / "schedule"):
            typer.echo(path)


def squeue(
    results: Results = None,
    at: At = None,
    server: Server = None,
    session: Session = "",
    token: Token = "",
    long: Annotated[
        bool, typer.Option("--long", "-l", help="Also print requested times, and states in full.")
    ] = False,
    start: Annotated[
        bool, typer.Option("--start", help="Print the expected starts of waiting jobs.")
    ] = False,
    user: Annotated[
        str | None, typer.Option("--user", "-u", metavar="NAMES", help="Only jobs of these users.")
    ] = None,
    job: Annotated[
        str | None, typer.Option("--job", "-j", metavar="IDS", help="Only these jobs.")
    ] = None,
    states: Annotated[
        str | None,
        typer.Option(
            "--states",
            "-t",
            metavar="STATES",
            help="Only jobs in these states, such as PD,R,CD, or all. Default: PD,R.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the jobs of a run at a time, as Slurm's squeue does."""
    with errors_in_one_line():
        check_one_source(results, server, session, token)
        from hpcosim_sim.record.results import to_json
        from hpcosim_view.run.extracts import clean
        from hpcosim_view.terminal import slurm_tables as table

        chosen = table.ACTIVE if states is None else table.states_named(states)
        frame, at_s = run_and_time(results, server, session, token, at)
        jobs = table.queue_at(frame, at_s, chosen)
        if user is not None:
            users = set(user.split(","))
            if frame.about["users"]:
                _warn_of_unknown("user", users, {clean(name) for name in frame.about["users"]})
            jobs = [each for each in jobs if each.user in users]
        if job is not None:
            ids = set(job.replace(" ", "").split(","))
            _warn_of_unknown("job", ids, set(map(str, frame.columns["job.id"].tolist())))
            jobs = [each for each in jobs if str(each.job_id) in ids]
        if as_json:
            rows = [_row(each) for each in jobs]
            sys.stdout.write(to_json({"at_s": at_s, "jobs": rows}))
        else:
            for line in table.squeue(jobs, long=long, start=start):
                typer.echo(line)


def _warn_of_unknown(kind: str, chosen: Collection[str], known: Collection[str]) -> None:
    """Warn of chosen users or jobs that the whole run does not have."""
    from hpcosim.cli.printing import print_warning

    for name in sorted(set(chosen) - set(known)):
        print_warning(f"no such {kind} in the run: {name!r:.80}")


def _row(job: QueuedJob) -> dict[str, object]:
    """Return the fields of a job for JSON; NaN, which means unknown, becomes None."""
    fields = job._asdict().items()
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in fields
    }


def sinfo(
    results: Results = None,
    at: At = None,
    server: Server = None,
    session: Session = "",
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Print the nodes of a run at a time, as Slurm's sinfo does."""
    with errors_in_one_line():
        check_one_source(results, server, session, token)
        from hpcosim_sim.record.results import to_json
        from hpcosim_view.terminal import slurm_tables as table

        frame, at_s = run_and_time(results, server, session, token, at)
        groups = table.nodes_at(frame, at_s)
        if as_json:
            rows = [
                {
                    **each._asdict(),
                    "limit_s": each.limit_s if each.limit_s < math.inf else None,
                    "nodes": each.nodes,
                }
                for each in groups
            ]
            sys.stdout.write(to_json({"at_s": at_s, "nodes": rows}))
        else:
            for line in table.sinfo(groups):
                typer.echo(line)


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
        from hpcosim_view.run.folder import read_folder
        from hpcosim_view.terminal.run_source import Following, Playback, Source

        check_one_source(results, server, session, token)
        if server is not None and speed is not None:
            raise SelectionError("--speed applies to a results folder; a live run has + and -")
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise SelectionError("top needs a terminal; `hpcosim show squeue` prints a table")
        try:
            from hpcosim_view.terminal.top import Top
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


for _command in (draw, squeue, sinfo, top):
    _name = _command.__name__
    app.command(_name, help=help_of(_command), epilog=EXAMPLES.get(_name))(_command)
