"""Messages on a stream: each has its length before it."""

from __future__ import annotations

import asyncio
import socket

LENGTH_BYTES = 4
MOST_BYTES = 2**31 - 1


def framed(data: bytes) -> bytes:
    """Return a message with its length.

    Raises:
        ValueError: it is too long.
    """
    if len(data) > MOST_BYTES:
        raise ValueError(f"expected a message of at most {MOST_BYTES} bytes, got {len(data)}")
    return len(data).to_bytes(LENGTH_BYTES) + data


async def read_message(stream: asyncio.StreamReader) -> bytes:
    """Return the next message of a stream.

    Raises:
        asyncio.IncompleteReadError: the stream has ended.
    """
    return await stream.readexactly(int.from_bytes(await stream.readexactly(LENGTH_BYTES)))


def receive_message(connection: socket.socket) -> bytes:
    """Return the next message of a blocking socket.

    Raises:
        ConnectionError: it is closed.
    """
    return _receive(connection, int.from_bytes(_receive(connection, LENGTH_BYTES)))


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(2**20, size - len(parts)))
        if not part:
            raise ConnectionResetError("the other process has closed the connection")
        parts += part
    return bytes(parts)
