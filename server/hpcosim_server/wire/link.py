"""A connection to a listening socket of this machine, which is made again when it is lost."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from hpcosim_protocol.errors import WireError
from hpcosim_protocol.zmtp import INNER_FRAMES, Decoder, encoded, ready

READ_BYTES = 2**18
AGAIN_S = 0.02  # between two tries to connect


class Link:
    """A DEALER's connection to a local ROUTER. Messages are lost while it is away.

    Args:
        path: file of the listening socket.
        most_bytes: largest body of a message, bytes.
        first: returns the message to send first on each connection.
        other: another descriptor that ends the wait of `receive`.

    Attributes:
        other_is_ready: whether it was readable after the last wait.
    """

    def __init__(
        self, path: str, most_bytes: int, first: Callable[[], Sequence[bytes]], other: int
    ) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._first = first
        self._other = other
        self.other_is_ready = False
        self._poll = select.poll()
        self._poll.register(other, select.POLLIN)
        self._socket: socket.socket | None = None
        self._decoder = self._new_decoder()
        self._due_s = 0.0

    def send(self, frames: Sequence[bytes]) -> bool:
        """Send a message; return whether there is a connection. It waits for a slow reader."""
        if self._socket is None and not self._connect():
            return False
        return self._send(encoded(frames))

    def receive(self, timeout_s: float) -> list[bytes] | None:
        """Return the next message; None: none came in time, or `other_is_ready`."""
        frames = self._next()
        if frames is not None:
            return frames
        if not self._connect():
            timeout_s = min(timeout_s, AGAIN_S)
        ready_now = [descriptor for descriptor, _ in self._poll.poll(1000 * timeout_s)]
        self.other_is_ready = self._other in ready_now
        if self._socket is None or self._socket.fileno() not in ready_now:
            return None
        self._read(self._socket)
        return self._next()

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._poll.unregister(self._socket.fileno())
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
        self._poll.register(connection.fileno(), select.POLLIN)
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
