"""A peer that writes ZeroMQ's wire protocol byte by byte, for what libzmq does not do."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

MORE, LONG, COMMAND = 1, 2, 4
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
FIRST_ROUTING_ID = 0x6B8B4567
"""The first automatic routing identity of libzmq without CURVE."""


def ready(identity: bytes = b"", kind: bytes = b"DEALER") -> bytes:
    """Return the command READY."""
    body = b"\5READY"
    for name, value in ((b"Socket-Type", kind), (b"Identity", identity)):
        body += bytes((len(name),)) + name + struct.pack(">I", len(value)) + value
    return bytes((COMMAND, len(body))) + body


def frame(body: bytes, flags: int = 0) -> bytes:
    """Return a frame."""
    if len(body) < 256:
        return bytes((flags, len(body))) + body
    return struct.pack(">BQ", flags | LONG, len(body)) + body


def claimed_identity(number: int) -> bytes:
    """Return the automatic routing identity that libzmq gives out after so many others."""
    return b"\0" + struct.pack(">I", (FIRST_ROUTING_ID + number) % 2**32)


class RawPeer:
    """A connection.

    Args:
        address: address of the server, `tcp://HOST:PORT` or `ipc://PATH`.
        identity: routing identity to claim.
        source: host from which it connects; empty: any.
    """

    def __init__(self, address: str, identity: bytes = b"", source: str = "") -> None:
        if address.startswith("ipc://"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(30.0)
            self.socket.connect(address.removeprefix("ipc://"))
        else:
            host, port = address.removeprefix("tcp://").split(":")
            self.socket = socket.create_connection((host, int(port)), 30.0, (source, 0))
        self.socket.sendall(GREETING + ready(identity))

    def send(self, data: bytes) -> bool:
        """Send bytes; return whether the connection was still open."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def is_closed(self) -> bool:
        """Wait until the server has closed the connection or is silent for 30 s."""
        with suppress(ConnectionError):
            while data := self.socket.recv(2**16):
                del data
        return True

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()
