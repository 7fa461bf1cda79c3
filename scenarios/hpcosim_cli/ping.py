"""The command `hpcosim ping`."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcosim_cli.checks import optional_server_address
from hpcosim_cli.errors import errors_in_one_line
from hpcosim_cli.options import SERVER, Connect, Keys, ServerKey


def ping(
    address: Annotated[
        str | None,
        typer.Argument(
            metavar="ADDRESS",
            help="Address of the server, instead of --connect.",
            callback=optional_server_address,
        ),
    ] = None,
    connect: Connect = SERVER,
    timeout_s: Annotated[float, typer.Option(min=0.1, help="Timeout for the reply, in s.")] = 3.0,
    keys: Keys = None,
    server_key: ServerKey = None,
) -> None:
    """Check that a server answers: exit status 0 if it does, 1 if not."""
    with errors_in_one_line():
        from hpcosim_client import Connection, Timeouts
        from hpcosim_protocol.keys import read_client_keys

        timeouts = Timeouts(min(1.0, timeout_s / 2), reply_s=timeout_s, hello_s=timeout_s)
        own = read_client_keys(keys, server_key) if keys else None
        with Connection(address or connect, timeouts, keys=own) as connection:
            connection.ping()
