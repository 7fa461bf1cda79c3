"""Messages between the processes of a server: supervisor, front and workers."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Self

import msgspec
from msgspec import Struct

from hpcosim_protocol import ServerStatus
from hpcosim_protocol.zmtp import Rest
from hpcosim_server.service.status import Failure, LivePage, Progress
from hpcosim_server.wire.peer import MovedConnection

MOST_BYTES = 2**17
MOST_TEXT = 2**14  # characters of a reason that is too long


class Load(Struct, frozen=True, tag_field="status", tag="load"):
    """The sessions of a worker."""

    worker: int
    opened: int = 0
    active: int = 0
    over: int = 0


class WorkersWanted(Struct, frozen=True, tag_field="status", tag="want"):
    """The front wants more workers.

    Attributes:
        workers: how many there should be in all.
    """

    workers: int


class Stopping(Struct, frozen=True, tag_field="status", tag="stopping"):
    """The server stops. Workers finish their request, close their sessions and end."""

    reason: str
    is_over: bool = False


class Workers(Struct, frozen=True, tag_field="status", tag="workers"):
    """The workers that are there, or are about to be there again."""

    numbers: Sequence[int]


class Summary(Struct, frozen=True, tag_field="status", tag="summary"):
    """The status of the server, from the front to the live page."""

    of: ServerStatus


class Ended(Struct, frozen=True, tag_field="status", tag="ended"):
    """What the supervisor has noted of processes that ended by a failure."""

    restarts: int
    failures: Mapping[str, int]


Report = Progress | Failure | Load | WorkersWanted | Summary | LivePage
Order = Stopping | Workers | Ended | Summary

_REPORTS: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)
_ORDERS: msgspec.json.Decoder[Order] = msgspec.json.Decoder(Order)


class Control:
    """One end of the connection between the supervisor and another process."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self.is_closed = False

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._socket.fileno()

    def send(self, message: Report | Order) -> None:
        """Send a message; it is dropped if the other end is gone or does not read."""
        data = msgspec.json.encode(message)
        if len(data) > MOST_BYTES and isinstance(message, Failure):
            data = msgspec.json.encode(Failure(message.cause, message.why[:MOST_TEXT]))
        with suppress(OSError):
            self._socket.send(data, socket.MSG_DONTWAIT)

    def report(self) -> Report | None:
        """Return the next report to the supervisor; None: there is none, or the end is gone."""
        data = self._receive()
        return None if data is None else _REPORTS.decode(data)

    def order(self) -> Order | None:
        """Return the next order of the supervisor; None: there is none, or it is gone."""
        data = self._receive()
        return None if data is None else _ORDERS.decode(data)

    def _receive(self) -> bytes | None:
        try:
            data = self._socket.recv(2 * MOST_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            self.is_closed = True
            return None
        return data

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


def control_pair() -> tuple[Control, Control]:
    """Return the two ends of a new connection."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Control(one), Control(other)


class Handover(Struct, frozen=True, array_like=True, tag="handover"):
    """A connection of a client, and its request, which the receiver is to answer.

    Attributes:
        address: name of the connection; it has the key of the client.
        request: the frames of the request; empty: there is none.
        queued: bytes that wait to be sent to the client.
    """

    address: bytes
    request: list[bytes]
    rest: Rest
    queued: bytes

    @classmethod
    def of(cls, moved: MovedConnection, request: list[bytes]) -> Self:
        """Return the message that goes with a connection."""
        return cls(moved.address, request, moved.rest, moved.queued)

    def moved(self, connection: socket.socket) -> MovedConnection:
        """Return the connection that came with the message."""
        return MovedConnection(connection, self.address, self.rest, self.queued)


class WorkerReport(Struct, frozen=True, array_like=True, tag="told"):
    """What the front must know of a worker."""

    load: Load
    heard: int
    nonces: tuple[str, ...] = ()


class StatusOf(Struct, frozen=True, array_like=True, tag="status"):
    """The status of a worker."""

    status: ServerStatus


class Dismissal(Struct, frozen=True, array_like=True, tag="leave"):
    """The front has no more use for a worker without sessions."""


ToFront = Handover | WorkerReport | StatusOf
ToWorker = Handover | Dismissal

packed = msgspec.msgpack.Encoder().encode
to_front: msgspec.msgpack.Decoder[ToFront] = msgspec.msgpack.Decoder(ToFront)
to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
