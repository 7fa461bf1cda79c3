"""The command `hpcosim ping`."""

from __future__ import annotations

from hpcosim.cli.asking import TIMEOUT_S, Address, Timeout, asking
from hpcosim.cli.errors import errors_in_one_line
from hpcosim.cli.options import SERVER, Connect, Keys, ServerKey


def ping(
    address: Address = None,
    connect: Connect = SERVER,
    timeout_s: Timeout = TIMEOUT_S,
    keys: Keys = None,
    server_key: ServerKey = None,
) -> None:
    """Check that a server answers: exit status 0 if it does, 1 if not."""
    server = address or connect
    with errors_in_one_line(), asking(server, timeout_s, keys, server_key) as connection:
        connection.ping()
