"""Who may connect to the public socket of a server."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, NamedTuple

from hpcosim_protocol.keys import ServerKeys
from hpcosim_server import log
from hpcosim_server.errors import BindError
from hpcosim_server.wire.listener import Bounds
from hpcosim_server.wire.peers import Peers

if TYPE_CHECKING:
    from hpcosim_server.wire.curve import CurvePeers

LOCAL = ("tcp://127.", "tcp://[::1]", "ipc://")


class Access(NamedTuple):
    """Who may connect to a server.

    Attributes:
        keys: the keys of the server: only clients with an admitted key connect; None: every
            process that reaches the address does.
        insecure: whether other machines may reach a server without keys.
    """

    keys: ServerKeys | None = None
    insecure: bool = False


LOCAL_ONLY = Access()


def clients_of(
    listener: socket.socket, bounds: Bounds, access: Access = LOCAL_ONLY
) -> Peers | CurvePeers:
    """Return the connections of a listening socket."""
    if access.keys is None:
        return Peers(listener, bounds)
    from hpcosim_server.wire.curve import CurvePeers

    return CurvePeers(listener, access.keys, bounds)


def check_exposure(endpoint: str, access: Access) -> None:
    """Check that an address that other machines may reach has keys.

    Raises:
        BindError: it has none, and that is not accepted.
    """
    if access.keys is not None or endpoint.startswith(LOCAL):
        return
    if not access.insecure:
        raise BindError(
            f"cannot listen at {endpoint} without keys, because other machines may reach it. Make "
            "keys with `hpcosim keygen KEYS` and add --keys KEYS/server; or listen at "
            "tcp://127.0.0.1:PORT; or add --insecure, and every machine that reaches the address "
            "can use the server"
        )
    log.warning(
        "public_address",
        address=endpoint,
        hint="other machines may reach this address, and the server has no keys",
    )
