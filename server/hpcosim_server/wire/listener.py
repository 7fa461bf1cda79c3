"""Listening sockets for addresses such as `tcp://127.0.0.1:28080` and `ipc:///run/x.sock`."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from hpcosim_server.errors import BindError

MAX_PORT = 65535
BACKLOG = 1024  # connections that wait while the front starts again
IN_USE = "Address already in use"

KEY_LENGTH = 40


def listen(address: str) -> socket.socket:
    """Return a socket that listens at an address.

    Args:
        address: `tcp://HOST:PORT`, where HOST is an IP address, a host name or `*` (all addresses)
            and PORT a number or `*` (a free one); or `ipc://PATH`, where a PATH that begins with
            `@` is an abstract name.

    Raises:
        BindError: the address is malformed, in use or not permitted.
    """
    scheme, _, rest = address.partition("://")
    try:
        if scheme == "ipc" and rest:
            return _local(rest)
        if scheme == "tcp":
            return _tcp(rest)
    except (OSError, ValueError, UnicodeError) as error:
        why = (isinstance(error, OSError) and error.strerror) or error
        raise BindError(f"cannot listen at {address}: {why}") from error
    raise BindError(f"cannot listen at {address}: expected tcp://HOST:PORT or ipc://PATH")


def endpoint_of(listener: socket.socket) -> str:
    """Return the address at which a socket listens, with the number of its port."""
    name = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        abstract = isinstance(name, bytes)
        return "ipc://" + ("@" + os.fsdecode(name[1:]) if abstract else name)
    host = f"[{name[0]}]" if listener.family == socket.AF_INET6 else name[0]
    return f"tcp://{host}:{name[1]}"


def close_listener(listener: socket.socket) -> None:
    """Close a listening socket, and remove its file."""
    name = listener.getsockname() if listener.family == socket.AF_UNIX else ""
    listener.close()
    if isinstance(name, str) and name:
        with suppress(OSError):
            os.unlink(name)


def _tcp(rest: str) -> socket.socket:
    host, separator, port = rest.rpartition(":")
    if not (separator and host and (port == "*" or (port.isascii() and port.isdecimal()))):
        raise ValueError("expected tcp://HOST:PORT")
    number = 0 if port == "*" else int(port[:6])
    if number > MAX_PORT or port == "0" * len(port):
        raise ValueError(f"expected a port from 1 to {MAX_PORT}, or * for a free one")
    bare = "0.0.0.0" if host == "*" else host.removeprefix("[").removesuffix("]")  # noqa: S104
    kind = socket.SOCK_STREAM
    family, *_, place = socket.getaddrinfo(bare, number, type=kind, flags=socket.AI_PASSIVE)[0]
    listener = socket.socket(family, kind)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(place)
        return _listening(listener)
    except OSError:
        listener.close()
        raise


def _local(path: str) -> socket.socket:
    name: str | bytes = b"\0" + os.fsencode(path[1:]) if path.startswith("@") else path
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if isinstance(name, str):
            _remove_dead(name)
        listener.bind(name)
        return _listening(listener)
    except OSError:
        listener.close()
        raise


def _remove_dead(path: str) -> None:
    """Remove the socket file of a server that has ended without removing it."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return  # `bind` refuses it
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)
                return
        raise OSError(errno.EADDRINUSE, IN_USE)


def _listening(listener: socket.socket) -> socket.socket:
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


def address_of(envelope: Sequence[bytes]) -> bytes:
    """Return the address of the sender of a message: its first frame; empty: unknown."""
    return envelope[0] if envelope else b""


def key_of(address: bytes) -> bytes:
    """Return the public key in the address of a client; empty: the client has no key.

    Addresses of `CurvePeers` begin with the key; those of `Peers` are shorter than a key.
    """
    return address[:KEY_LENGTH] if len(address) > KEY_LENGTH else b""


def address_with(key: bytes) -> bytes:
    """Return an address at which no connection is, of a client with a public key or without."""
    return key + b"-" if key else b""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of connections, so that no peer harms the others.

    Attributes:
        message_bytes: largest body that is kept, bytes.
        idle_s: silence after which a connection that waits for no reply is closed, s.
        waiting_s: silence after which one that waits for a reply is closed, s.
        settled_s: silence after which a connection that waits for no reply gives way to a new one
            when no more are possible, s.
        queued_messages: messages that wait for a peer that does not read; further ones are lost.
        queued_bytes: their size; one message may be larger.
        total_bytes: bytes that wait in all connections together, in both directions. Beyond it, the
            connection with the most is closed.
    """

    message_bytes: int = 16 * 2**20
    peers: int = 4096
    handshake_s: float = 10.0
    idle_s: float = 600.0
    waiting_s: float = 86_400.0
    settled_s: float = 5.0
    queued_messages: int = 16
    queued_bytes: int = 64 * 2**20
    total_bytes: int = 512 * 2**20
