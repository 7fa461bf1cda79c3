"""One connection of a listening socket."""

from __future__ import annotations

import socket
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from hpcosim_protocol.zmtp import Decoder, Rest
from hpcosim_server.wire.listener import key_of

KEEP_ALIVE_S = 60  # silence after which the kernel asks whether the host of a peer is there


class MovedConnection(NamedTuple):
    """A connection that moves to other `Peers`, here or in another process.

    Attributes:
        queued: bytes that wait to be sent.
    """

    connection: socket.socket
    address: bytes
    rest: Rest = Rest()
    queued: bytes = b""


class Peer:
    """A connection: what has arrived, and what waits to be sent.

    Attributes:
        owner: who shares its part of the connections; see `owner_of`.
        has_turn: whether its messages may be read; until then nothing more is received.
        queued: bytes of messages that wait to be sent; the first may be sent in part.
    """

    def __init__(
        self, connection: socket.socket, address: bytes, decoder: Decoder, now_s: float
    ) -> None:
        self.socket = connection
        self.address = address
        self.owner = owner_of(connection, address)
        self.decoder = decoder
        self.active_s = now_s
        self.is_waiting = self.has_turn = self.is_parked = False
        self.queued: deque[Sequence[bytes | memoryview]] = deque()
        self.queued_bytes = 0
        connection.setblocking(False)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_ALIVE_S)

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes that wait in either direction."""
        return self.queued_bytes + self.decoder.held_bytes

    def send(self, pieces: Sequence[bytes]) -> None:
        """Send the pieces of a message, or queue what the kernel does not take now."""
        if self.queued:
            self._queue(pieces)
        else:
            self._send_now(pieces)

    def send_queued(self) -> None:
        """Send what is queued, as much as the kernel takes now."""
        while self.queued:
            pieces = self.queued.popleft()
            self.queued_bytes -= size_of(pieces)
            if not self._send_now(pieces):
                return

    def _send_now(self, pieces: Sequence[bytes | memoryview]) -> bool:
        """Send pieces; queue the rest in front of the others. Return whether all are sent."""
        try:
            sent = self.socket.sendmsg(pieces)
        except BlockingIOError:
            sent = 0
        rest = _after(pieces, sent)
        if rest:
            self.queued.appendleft(rest)
            self.queued_bytes += size_of(rest)
        return not rest

    def _queue(self, pieces: Sequence[bytes]) -> None:
        self.queued.append(pieces)
        self.queued_bytes += size_of(pieces)


def owner_of(connection: socket.socket, address: bytes = b"") -> bytes:
    """Return who shares a part of the connections: the key in an address, otherwise the host."""
    if key := key_of(address):
        return key
    with suppress(OSError):  # it is gone
        return host_of(connection)
    return b""


def size_of(pieces: Sequence[bytes | memoryview]) -> int:
    """Return the number of bytes in pieces."""
    return sum(map(len, pieces))


def _after(pieces: Sequence[bytes | memoryview], sent: int) -> Sequence[bytes | memoryview]:
    """Return what is left of pieces after the first bytes are sent."""
    left: list[bytes | memoryview] = []
    for piece in pieces:
        if sent >= len(piece):
            sent -= len(piece)
        else:
            left.append(memoryview(piece)[sent:] if sent else piece)
            sent = 0
    return left


def crowded(owners: Iterable[bytes]) -> bytes:
    """Return the owner with the most connections.

    Whoever has fewer than an equal share keeps them, however many another one opens.
    """
    return Counter(owners).most_common(1)[0][0]


def host_of(connection: socket.socket) -> bytes:
    """Return the host of the other end of a connection; empty: this one, by a local socket."""
    name = connection.getpeername()
    return name[0].encode() if isinstance(name, tuple) else b""
