"""The command `hpcosim ping`."""

from __future__ import annotations

from hpcosim_cli.errors import errors_in_one_line
from hpcosim_cli.options import SERVER, Connect


def ping(connect: Connect = SERVER) -> None:
    """Find out whether a server answers: exit 0 if it does, else 1."""
    with errors_in_one_line():
        from hpcosim_client import Connection, Timeouts

        with Connection(connect, Timeouts(resend_s=1.0, reply_s=3.0, hello_s=3.0)) as connection:
            connection.ping()
