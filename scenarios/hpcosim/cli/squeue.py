"""The command `hpcosim show squeue`."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import typer

from hpcosim.cli.errors import errors_in_one_line
from hpcosim.cli.watched import At, Results, Server, Session, Token, check_one_source, run_and_time

if TYPE_CHECKING:
    from hpcosim_view.terminal.squeue import QueuedJob


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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Print the jobs of a run at a time, as Slurm's squeue does."""
    with errors_in_one_line():
        check_one_source(results, server, session, token)
        from hpcosim_sim.record.results import to_json
        from hpcosim_view.runs import clean
        from hpcosim_view.terminal import squeue as table

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
    from hpcosim.cli.report import print_warning

    for name in sorted(set(chosen) - set(known)):
        print_warning(f"no such {kind} in the run: {name!r:.80}")


def _row(job: QueuedJob) -> dict[str, object]:
    """Return the fields of a job for JSON; NaN, which means unknown, becomes None."""
    fields = job._asdict().items()
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in fields
    }
