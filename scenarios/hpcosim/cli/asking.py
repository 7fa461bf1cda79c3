"""One request to a server that runs, for `hpcosim ping` and `hpcosim status`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcosim.cli.checks import optional_server_address

if TYPE_CHECKING:
    from hpcosim_client import Connection

Address = Annotated[
    str | None,
    typer.Argument(
        metavar="ADDRESS",
        help="Address of the server, instead of --connect.",
        callback=optional_server_address,
    ),
]
Timeout = Annotated[float, typer.Option(min=0.1, help="Timeout for the reply, in s.")]

TIMEOUT_S = 3.0


@contextmanager
def asking(
    address: str, timeout_s: float, keys: Path | None, server_key: Path | None
) -> Iterator[Connection]:
    """Yield a connection for one request.

    Args:
        address: address of the server.
        timeout_s: timeout of the reply, s.
        keys: folder of the client's keys, or its secret key; None: the server has no keys.
        server_key: public key of the server; None: that beside the secret key.
    """
    from hpcosim_client import Connection, Timeouts
    from hpcosim_protocol.keys import client_keys

    timeouts = Timeouts(min(1.0, timeout_s / 2), reply_s=timeout_s, hello_s=timeout_s)
    with Connection(address, timeouts, keys=client_keys(keys, server_key)) as connection:
        yield connection
