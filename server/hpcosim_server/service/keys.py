"""Who may connect to the public socket of a server."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from hpcosim_protocol.keys import ServerKeys
from hpcosim_protocol.zmtp import Message
from hpcosim_server import log
from hpcosim_server.errors import BindError
from hpcosim_server.wire.listener import Bounds
from hpcosim_server.wire.peers import Peers

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


class Clients(Protocol):
    """The connections of clients; see `Peers`."""

    closed: list[bytes]
    lost: int

    def receive(self, timeout_s: float) -> tuple[bytes, Message] | None:
        """Return the next message and the address of its sender; None: none came in time."""

    def send(self, address: bytes, frames: Sequence[bytes]) -> bool:
        """Send a message to a peer, without waiting for it; return whether it has room."""

    def flush(self, timeout_s: float) -> None:
        """Send what is queued, for at most a time."""

    def close(self) -> None:
        """Close all connections."""


def clients_of(listener: socket.socket, bounds: Bounds, access: Access = LOCAL_ONLY) -> Clients:
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
