"""Whose connections give way when there are too many: those of the client with the most."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable


def crowded(owners: Iterable[bytes]) -> bytes:
    """Return the owner with the most connections.

    Whoever has fewer than an equal share keeps them, however many another one opens.

    Args:
        owners: the owner of each connection, at least one.
    """
    return Counter(owners).most_common(1)[0][0]


def host_of(connection: socket.socket) -> bytes:
    """Return the host of the other end of a connection; empty: this one, by a local socket.

    Raises:
        OSError: the other end is gone.
    """
    name = connection.getpeername()
    return name[0].encode() if isinstance(name, tuple) else b""
