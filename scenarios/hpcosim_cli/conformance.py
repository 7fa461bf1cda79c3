"""The command `hpcosim conformance`."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcosim_cli.errors import RUN_FAILED, errors_in_one_line
from hpcosim_cli.options import Json


def conformance(
    client: Annotated[
        str, typer.Option(metavar="COMMAND", help="A scheduler's; {address} stands for ours.")
    ] = "",
    server: Annotated[str, typer.Option(metavar="ADDRESS", help="A server's.")] = "",
    scenario: Annotated[str, typer.Option(help="Which of the server's; default its first.")] = "",
    only: Annotated[
        list[str] | None, typer.Option(help="Just this check; may be repeated.")
    ] = None,
    timeout_s: Annotated[
        float, typer.Option(min=0.1, help="Timeout for each message of the other side, s.")
    ] = 20.0,
    delay_s: Annotated[
        float, typer.Option(min=0.0, help="Delay injected before a reply to a client, s.")
    ] = 7.0,
    as_json: Json = False,
) -> None:
    """Try any scheduler, or any server, rule by rule: exit 0 if it broke none, else 1."""
    with errors_in_one_line():
        from hpcosim_conformance import CommandError, conforms, report, try_client, try_server

        if bool(client) == bool(server):
            raise CommandError("name either a --client or a --server, one at a time")
        names = only or []
        verdicts = (
            try_client(client, names, timeout_s=timeout_s, delay_s=delay_s)
            if client
            else try_server(server, names, scenario=scenario, timeout_s=timeout_s)
        )
        passed = conforms(report(verdicts, as_json=as_json))
    if not passed:
        raise typer.Exit(RUN_FAILED)
