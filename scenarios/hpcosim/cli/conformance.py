"""The command `hpcosim conformance`."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcosim.cli.options import Json, Keys, ServerKey, if_given, server_address
from hpcosim.cli.usage import RUN_FAILED, errors_in_one_line

Client = Annotated[
    str,
    typer.Option(
        metavar="COMMAND",
        help="Command that starts the scheduler to check. {address} in it is replaced by the "
        "address of the kit's server. No shell runs it; for shell syntax use sh -c '...'.",
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Address of the server to check. The server must run without --once and --sessions.",
        callback=if_given(server_address),
    ),
]
ServedScenario = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Scenario of the server, only with --server. Default: the server's first scenario.",
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="CHECK", help="Run this check only. Repeatable. Default: all checks."),
]
Timeout = Annotated[
    float, typer.Option(min=0.1, help="Timeout for each message of the checked side, in s.")
]
Delay = Annotated[
    float, typer.Option(min=0.0, help="Delay injected before a reply to a client, in s.")
]


def conformance(
    client: Client = "",
    server: Server = None,
    scenario: ServedScenario = "",
    only: Only = None,
    timeout_s: Timeout = 20.0,
    delay_s: Delay = 7.0,
    as_json: Json = False,
    keys: Keys = None,
    server_key: ServerKey = None,
) -> None:
    """Check a scheduler or a server against the rules of the protocol.

    The exit status is 0 if all rules hold, 1 if one is broken or no server answers, 2 for invalid
    options.
    """
    with errors_in_one_line():
        from hpcosim_conformance import CommandError, conforms, report, try_client, try_server
        from hpcosim_protocol.keys import client_keys

        if bool(client) == bool(server):
            raise CommandError("expected exactly one of --client and --server")
        if client and scenario:
            raise CommandError(
                "--scenario applies only to --server: the kit has its own scenarios for a client"
            )
        if client and keys:
            raise CommandError("--keys applies only to --server: the kit's own server has no keys")
        own = client_keys(keys, server_key)
        names = only or []
        verdicts = (
            try_server(server, names, scenario=scenario, timeout_s=timeout_s, keys=own)
            if server
            else try_client(client, names, timeout_s=timeout_s, delay_s=delay_s)
        )
        passed = conforms(report(verdicts, as_json=as_json))
    if not passed:
        raise typer.Exit(RUN_FAILED)
