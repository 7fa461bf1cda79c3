"""A connection to a listening socket of this machine, which comes back when it is lost."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from hpcosim_server.errors import WireError
from hpcosim_server.wire.zmtp import INNER_FRAMES, Decoder, encoded, ready

READ_BYTES = 2**18
AGAIN_S = 0.02  # between two tries to connect


class Link:
    """A DEALER's connection to a local ROUTER. Messages are lost while it is away.

    Args:
        path: file of the listening socket.
        most_bytes: largest body of a message, bytes.
        first: returns the message to send first on each connection.
    """

    def __init__(self, path: str, most_bytes: int, first: Callable[[], Sequence[bytes]]) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._first = first
        self._socket: socket.socket | None = None
        self._decoder = self._new_decoder()
        self._due_s = 0.0

    def fileno(self) -> int:
        """Return the descriptor of the connection; -1: there is none now."""
        return -1 if self._socket is None else self._socket.fileno()

    def send(self, frames: Sequence[bytes]) -> bool:
        """Send a message; return whether there is a connection. It waits for a slow reader."""
        if self._socket is None and not self._connect():
            return False
        return self._send(encoded(frames))

    def receive(self, timeout_s: float, also: int) -> list[bytes] | None:
        """Return the next message; None: none came in time, or another descriptor is readable.

        Args:
            timeout_s: timeout, s.
            also: the other descriptor.
        """
        frames = self._next()
        if frames is not None:
            return frames
        self._connect()
        poll = select.poll()
        poll.register(also, select.POLLIN)
        if self._socket is None:
            timeout_s = min(timeout_s, AGAIN_S)
        else:
            poll.register(self._socket.fileno(), select.POLLIN)
        ready_now = [descriptor for descriptor, _ in poll.poll(1000 * timeout_s)]
        if self._socket is None or self._socket.fileno() not in ready_now:
            return None
        self._read(self._socket)
        return self._next()

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _new_decoder(self) -> Decoder:
        return Decoder(self._most_bytes, (b"ROUTER",), INNER_FRAMES)

    def _next(self) -> list[bytes] | None:
        try:
            message = self._decoder.next()
        except WireError:
            self.close()
            self._decoder = self._new_decoder()
            return None
        return None if message is None else message.frames

    def _read(self, connection: socket.socket) -> None:
        data = b""
        with suppress(OSError):
            data = connection.recv(READ_BYTES)
        if data:
            self._decoder.feed(data)
        else:
            self.close()

    def _connect(self) -> bool:
        """Connect unless connected, or the last try was just now; return whether connected."""
        if self._socket is not None:
            return True
        if time.monotonic() < self._due_s:
            return False
        self._due_s = time.monotonic() + AGAIN_S
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(self._path)
        except OSError:
            connection.close()
            return False
        self._socket, self._decoder = connection, self._new_decoder()
        return self._send([ready(b"DEALER"), *encoded(self._first())])

    def _send(self, pieces: Sequence[bytes]) -> bool:
        assert self._socket is not None
        try:
            for piece in pieces:
                self._socket.sendall(piece)
        except OSError:
            self.close()
            return False
        return True
