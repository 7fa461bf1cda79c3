"""Which connections libzmq has for a socket with keys: it tells of them, but bounds nothing."""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import zmq
from zmq.utils.monitor import parse_monitor_message

from hpcosim_server.wire.fair_share import crowded, host_of

NUMBERS = itertools.count()
SOURCE = 2  # ZMQ_SRCFD, which pyzmq names in its drafts only


@dataclass(slots=True)
class CurveConnection:
    """A connection of libzmq.

    Attributes:
        inode: number of its socket, which no other has as long as it is open.
        owner: the key of the client; before its first message, the host.
        active_s: time of its last message in either direction, or of its begin, s.
        address: name of the connection; empty before its first message.
        is_waiting: whether its last message has had no reply so far.
    """

    inode: int
    owner: bytes
    active_s: float
    address: bytes = b""
    is_waiting: bool = False


class CurveRoster:
    """The connections of a socket with keys. When there are too many, one gives way.

    libzmq closes no connection on request, so its descriptor is shut down: libzmq reads the end.

    Args:
        router: the socket, before it listens.
        most: largest number of connections.
        clock: returns the time, s.

    Attributes:
        closed: addresses of the connections that were closed since the caller emptied the list.
    """

    def __init__(
        self,
        router: zmq.Socket[bytes],
        most: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.closed: list[bytes] = []
        self._router = router
        self._most = most
        self._clock = clock
        self._by_descriptor: dict[int, CurveConnection] = {}
        self._by_address: dict[bytes, CurveConnection] = {}
        where = f"inproc://connections-{next(NUMBERS)}"
        router.monitor(where, zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self._events: zmq.Socket[bytes] = router.context.socket(zmq.PAIR)
        self._events.linger = 0
        self._events.rcvhwm = 0  # the thread of libzmq must never wait for this one
        self._events.connect(where)

    def __len__(self) -> int:
        return len(self._by_descriptor)

    def refresh(self) -> None:
        """Note which connections there are; let some give way if there are too many."""
        if self._read_events():
            self._make_room()

    def note_request(self, address: bytes, key: bytes, frame: zmq.Frame) -> None:
        """Note that a message of a connection has arrived.

        Args:
            address: name of the connection.
            key: key of the client.
            frame: a frame of the message.
        """
        descriptor, has_new = int(frame.get(SOURCE)), False
        connection = self._by_descriptor.get(descriptor)
        if connection is None or connection.address != address:
            has_new = self._read_events()
            connection = self._by_descriptor.get(descriptor)
        if connection is not None:
            if connection.address != address:
                self._release(connection)
                connection.address, connection.owner = address, key
                self._by_address[address] = connection
            connection.active_s, connection.is_waiting = self._clock(), True
        if has_new:  # only now that the connection is known to be of this key
            self._make_room()

    def note_reply(self, address: bytes) -> None:
        """Note that a message was sent to a connection."""
        if connection := self._by_address.get(address):
            connection.active_s, connection.is_waiting = self._clock(), False

    def close(self) -> None:
        """Hear of no connection any more."""
        self._router.disable_monitor()
        self._events.close()

    def _read_events(self) -> bool:
        """Note which connections there are; return whether one of them is new."""
        has_new = False
        while int(self._events.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            event = parse_monitor_message(self._events.recv_multipart())
            self._forget(descriptor := int(event["value"]))
            if event["event"] == zmq.EVENT_ACCEPTED:
                has_new = True
                with suppress(OSError):  # it is gone already
                    self._by_descriptor[descriptor] = CurveConnection(
                        os.fstat(descriptor).st_ino, _host(descriptor), self._clock()
                    )
        return has_new

    def _make_room(self) -> None:
        while len(self._by_descriptor) > self._most:
            owner = crowded(each.owner for each in self._by_descriptor.values())
            self._close(
                min(
                    (number for number, each in self._by_descriptor.items() if each.owner == owner),
                    key=lambda number: (
                        self._by_descriptor[number].is_waiting,
                        self._by_descriptor[number].active_s,
                    ),
                )
            )

    def _close(self, descriptor: int) -> None:
        inode = self._by_descriptor[descriptor].inode
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as same:
            if os.fstat(same.fileno()).st_ino == inode:  # and not a newer one of that number
                same.shutdown(socket.SHUT_RDWR)
        self._forget(descriptor)

    def _forget(self, descriptor: int) -> None:
        connection = self._by_descriptor.pop(descriptor, None)
        if connection is not None:
            self._release(connection)

    def _release(self, connection: CurveConnection) -> None:
        """Say that no connection has an address any more, unless another one has it by now."""
        if connection.address and self._by_address.get(connection.address) is connection:
            del self._by_address[connection.address]
            self.closed.append(connection.address)


def _host(descriptor: int) -> bytes:
    """Return the host of the other end of a connection.

    Raises:
        OSError: it is gone.
    """
    with socket.socket(fileno=os.dup(descriptor)) as same:
        return host_of(same)
