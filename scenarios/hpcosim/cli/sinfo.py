"""The command `hpcosim show sinfo`."""

from __future__ import annotations

import math
import sys
from typing import Annotated

import typer

from hpcosim.cli.errors import errors_in_one_line
from hpcosim.cli.watched import At, Results, Server, Session, Token, check_one_source, run_and_time


def sinfo(
    results: Results = None,
    at: At = None,
    server: Server = None,
    session: Session = "",
    token: Token = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Print the nodes of a run at a time, as Slurm's sinfo does."""
    with errors_in_one_line():
        check_one_source(results, server, session, token)
        from hpcosim_sim.record.results import to_json
        from hpcosim_view.terminal import sinfo as table

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
