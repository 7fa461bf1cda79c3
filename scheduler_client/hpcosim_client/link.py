"""The link to a server: messages out, messages in, and the clock of its timeouts.

`SocketLink` speaks ZMTP over one socket, without libzmq and its threads. `zmq_link` is for servers
with keys and for unusual addresses.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hpcosim_protocol.errors import WireError
from hpcosim_protocol.zmtp import Decoder, encoded, ready

if TYPE_CHECKING:
    from hpcosim_protocol.keys import ClientKeys


AGAIN_S = 0.02  # between two tries to connect: client and server often start at the same time
READ_BYTES = 2**16  # below the size that takes new pages of memory for each read
MOST_BYTES = 2**40  # a client trusts its server
CLOSED = 3  # connections that end early, one after the other, before they are a problem
MAX_PORT = 65535
MAX_PATH = 107  # bytes of the path of a local socket
SERVERS = (b"ROUTER", b"REP", b"DEALER")
"""Types of the sockets that a client may connect to."""
OTHER_PROTOCOL = "the server does not speak the wire protocol of this client: %s"
NEEDS_KEYS = (
    "the server closes connections of this client: it probably has keys, and this client has none; "
    "name them with --keys (keys=)"
)


class Link(Protocol):
    """A link that may lose, repeat, delay and reorder messages, but changes none."""

    @property
    def problem(self) -> str:
        """The known reason why there is no connection, such as a wrong key; empty: none."""

    def send(self, data: bytes) -> None:
        """Send a message, without waiting for the server."""

    def receive(self, timeout_s: float) -> bytes | None:
        """Return the next message; None: none came in time."""

    def clock_s(self) -> float:
        """Return the time of a clock that never goes back, s."""

    def close(self) -> None:
        """Close the link."""


def new_link(address: str, send_s: float, keys: ClientKeys | None = None) -> Link:
    """Return a link to the address of a server.

    Args:
        address: ZeroMQ address, such as `tcp://127.0.0.1:28080`.
        send_s: longest time that `Link.send` waits for a server that does not read, s.
        keys: the keys for a server with keys; None: the server has none.

    Raises:
        AddressError: the address is invalid.
    """
    place = place_of(address)
    if keys is not None or place is None:
        from hpcosim_client.zmq_link import ZmqLink  # imports libzmq, which few clients need

        return ZmqLink(address, keys)
    return SocketLink(place, send_s)


class Place(NamedTuple):
    """Where a server listens.

    Attributes:
        host: host name or IP address; empty: the server listens at `path`.
        port: port, 1 to 65535.
        path: path of a local socket; an abstract name begins with a zero byte.
    """

    host: str
    port: int
    path: bytes


def place_of(address: str) -> Place | None:
    """Return the place of `tcp://HOST:PORT` or `ipc://PATH`; None: the address is another one."""
    scheme, _, rest = address.partition("://")
    if scheme == "ipc":
        path = os.fsencode(rest)
        path = b"\0" + path[1:] if path.startswith(b"@") else path
        return Place("", 0, path) if 0 < len(path) <= MAX_PATH else None
    host, _, port = rest.rpartition(":")
    if scheme != "tcp" or set(host) & set("*;/ ") or not (port.isascii() and port.isdecimal()):
        return None
    bare = host.removeprefix("[").removesuffix("]")
    if not bare or (":" in bare and bare == host) or not 0 < int(port[:6]) <= MAX_PORT:
        return None
    return Place(bare, int(port), b"")


class SocketLink:
    """A connection to a server, which is made again when it is lost.

    A message whose reply has not arrived is sent again on the next connection.

    Args:
        place: where the server listens.
        send_s: longest time that `send` waits for a server that does not read, s.

    Attributes:
        problem: the known reason why there is no connection; empty: none.
    """

    def __init__(self, place: Place, send_s: float) -> None:
        self.problem = ""
        self._place = place
        self._send_s = send_s
        self._socket: socket.socket | None = None
        self._decoder = _new_decoder()
        self._poll = select.poll()
        self._due_s = 0.0  # of the next try to connect
        self._unanswered: Sequence[bytes] = ()
        self._waits = False  # whether `_unanswered` waits for the handshake
        self._body = b""  # of the last message
        self._closed = 0  # connections before they were ready, one after the other

    def send(self, data: bytes) -> None:
        """See `Link`."""
        self._unanswered, self._waits = encoded([data]), True
        self._send_waiting()

    def receive(self, timeout_s: float) -> bytes | None:
        """See `Link`."""
        until_s = 0.0
        while not self._read_message():
            now_s = time.monotonic()
            until_s = until_s or now_s + timeout_s
            if now_s >= until_s:
                return None
            if self._socket is None and not self._connect(until_s):
                time.sleep(min(AGAIN_S, max(until_s - time.monotonic(), 0.0)))
                continue
            if self._socket is not None and self._poll.poll(1000 * (until_s - now_s)):
                self._read(self._socket)
        return self._body

    def clock_s(self) -> float:
        """See `Link`."""
        return time.monotonic()

    def close(self) -> None:
        """See `Link`."""
        if self._socket is not None:
            self._poll.unregister(self._socket)
            self._socket.close()
            self._socket = None

    def _read_message(self) -> bool:
        """Take the next message from the bytes that have arrived; return whether there is one."""
        try:
            message = self._decoder.next()
        except WireError as error:
            self._lose(OTHER_PROTOCOL % error)
            return False
        if self._decoder.control and self._socket is not None:
            control, self._decoder.control = self._decoder.control, b""
            self._send(self._socket, [control])
        if message is None:
            self._send_waiting()
            return False
        self._body, self._unanswered, self.problem = message.frames[-1], (), ""
        return True

    def _read(self, connection: socket.socket) -> None:
        data = b""
        with suppress(OSError):
            data = connection.recv(READ_BYTES)
        if data:
            self._decoder.feed(data)
        else:  # libzmq with keys closes the connection of a client without
            self._closed = 0 if self._decoder.is_ready else self._closed + 1
            self._lose(NEEDS_KEYS if self._closed >= CLOSED else "")

    def _lose(self, why: str) -> None:
        """Close the connection, for a reason or an unknown one."""
        self.close()
        self._decoder = _new_decoder()
        self.problem = why or self.problem

    def _connect(self, until_s: float) -> bool:
        """Connect, unless the last try was just now; return whether there is a connection."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return False
        self._due_s = now_s + AGAIN_S
        try:
            connection = _connected(self._place, max(until_s - now_s, AGAIN_S))
        except OSError:
            return False
        connection.settimeout(None)
        limit = struct.pack("ll", int(self._send_s) + 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._socket = connection
        self._poll.register(connection, select.POLLIN)
        self._waits = bool(self._unanswered)
        self._send(connection, [ready(b"DEALER")])
        return self._socket is not None

    def _send_waiting(self) -> None:
        """Send the message that waits, once the handshake is over: libzmq ignores it before."""
        if self._waits and self._decoder.is_ready and self._socket is not None:
            self._waits = False
            self._send(self._socket, self._unanswered)

    def _send(self, connection: socket.socket, pieces: Sequence[bytes]) -> None:
        try:
            for piece in pieces:
                connection.sendall(piece)
        except OSError:  # it is sent again on the next connection
            self._lose("")


def _new_decoder() -> Decoder:
    return Decoder(MOST_BYTES, SERVERS)


def _connected(place: Place, timeout_s: float) -> socket.socket:
    """Return a new connection to a place."""
    if place.host:
        connection = socket.create_connection((place.host, place.port), timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(place.path)
    except OSError:
        connection.close()
        raise
    return connection
