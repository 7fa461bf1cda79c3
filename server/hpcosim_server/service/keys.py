"""Who may connect to the public socket of a server."""

from __future__ import annotations

import socket
from typing import NamedTuple

import structlog

from hpcosim_protocol.keys import ServerKeys
from hpcosim_server.errors import BindError
from hpcosim_server.wire.listening import endpoint_of
from hpcosim_server.wire.peers import Bounds, Peers

log = structlog.get_logger()

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


def peers_of(listener: socket.socket, bounds: Bounds, access: Access = LOCAL_ONLY) -> Peers:
    """Return the connections of a listening socket.

    Raises:
        BindError: other machines may reach the address, and there are no keys.
    """
    endpoint = endpoint_of(listener)
    if access.keys is None:
        _check_exposure(endpoint, access)
        return Peers(listener, bounds)
    from hpcosim_server.wire.curve import CurvePeers

    return CurvePeers(listener, access.keys, bounds)


def _check_exposure(endpoint: str, access: Access) -> None:
    if endpoint.startswith(LOCAL):
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
