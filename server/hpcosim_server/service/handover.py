"""Messages between the front and a worker; the first one comes with a client's connection."""

from __future__ import annotations

import socket
from typing import Self

import msgspec
from msgspec import Struct

from hpcosim_protocol import ServerStatus
from hpcosim_protocol.zmtp import Rest
from hpcosim_server.service.control import Load
from hpcosim_server.wire.peer import Moved


class Handover(Struct, frozen=True, array_like=True, tag="handover"):
    """A connection of a client, and its request, which the receiver is to answer.

    Attributes:
        address: name of the connection; it has the key of the client.
        request: the frames of the request; empty: there is none.
        rest: what has arrived after it.
        queued: bytes that wait to be sent to the client.
    """

    address: bytes
    request: list[bytes]
    rest: Rest
    queued: bytes

    @classmethod
    def of(cls, moved: Moved, request: list[bytes]) -> Self:
        """Return the message that goes with a connection."""
        return cls(moved.address, request, moved.rest, moved.queued)

    def moved(self, connection: socket.socket) -> Moved:
        """Return the connection that came with the message."""
        return Moved(connection, self.address, self.rest, self.queued)


class Told(Struct, frozen=True, array_like=True, tag="told"):
    """What the front must know of a worker.

    Attributes:
        load: its sessions.
        heard: number of packets of the front that it has obeyed.
        nonces: for a new front, nonces of the hellos of the open sessions.
    """

    load: Load
    heard: int
    nonces: tuple[str, ...] = ()


class StatusOf(Struct, frozen=True, array_like=True, tag="status"):
    """The status of a worker.

    Attributes:
        status: its part of the status of the server.
    """

    status: ServerStatus


class Leave(Struct, frozen=True, array_like=True, tag="leave"):
    """The front has no more use for a worker without sessions."""


ToFront = Handover | Told | StatusOf
ToWorker = Handover | Leave

packed = msgspec.msgpack.Encoder().encode
to_front: msgspec.msgpack.Decoder[ToFront] = msgspec.msgpack.Decoder(ToFront)
to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
