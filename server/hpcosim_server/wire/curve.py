"""The connections of a server with keys: CurveZMQ by libzmq, with a list of admitted clients.

libzmq does the cryptography (RFC 26/CURVEZMQ). Its faults that `zmtp` names are not open to
strangers here: a connection without an admitted key ends before libzmq reads its routing identity
or a message.
"""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import zmq
from zmq.utils.monitor import parse_monitor_message

from hpcosim_protocol.keys import PUBLIC, KeysError, ServerKeys, read_public
from hpcosim_protocol.zmtp import MOST_FRAMES, TOO_LARGE, Message
from hpcosim_server import log
from hpcosim_server.errors import BindError
from hpcosim_server.wire.listener import KEY_LENGTH, Bounds, endpoint_of
from hpcosim_server.wire.log_rate import LogRate
from hpcosim_server.wire.peer import crowded, host_of

HEARTBEAT_MS = 60_000  # interval of pings, which find hosts that are gone

NUMBERS = itertools.count()
SOURCE = 2  # ZMQ_SRCFD, which pyzmq names in its drafts only

MAX_CLIENTS = 10_000


class CurvePeers:
    """The clients of a listening socket that have admitted keys; as `Peers` for the caller.

    Raises:
        BindError: libzmq cannot use the socket.
    """

    def __init__(
        self, listener: socket.socket, keys: ServerKeys, bounds: Bounds | None = None
    ) -> None:
        from zmq.auth.thread import ThreadAuthenticator

        self.bounds = bounds or Bounds()
        self.lost = 0
        self._context = zmq.Context()
        self._guard = ThreadAuthenticator(self._context)
        self._guard.start()
        admitted = Admitted(keys.clients)
        self._guard.configure_curve_callback("*", admitted)
        self._socket = self._context.socket(zmq.ROUTER)
        self._roster = CurveRoster(self._socket, self.bounds.peers)
        self.closed = self._roster.closed
        try:
            _configure(self._socket, self.bounds, keys)
            # libzmq closes its descriptor, and the caller this one.
            self._socket.setsockopt(zmq.USE_FD, os.dup(listener.fileno()))
            self._socket.bind(endpoint_of(listener))
        except zmq.ZMQError as error:
            self.close()
            raise BindError(f"cannot listen with keys: {error}") from error
        log.info("keys", clients=len(admitted), folder=str(keys.clients))

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when a message arrives.

        It signals changes (ZMQ_FD): read until `has_message` is false before waiting for it.
        """
        return int(self._socket.getsockopt(zmq.FD))

    @property
    def has_message(self) -> bool:
        """Whether `receive` returns a message without waiting."""
        self._roster.refresh()
        return bool(int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)

    def receive(self, timeout_s: float) -> tuple[bytes, Message] | None:
        """Return the next message and the address of its sender; None: none came in time."""
        self._roster.refresh()
        if not self._socket.poll(int(1000 * timeout_s)):
            return None
        first: zmq.Frame = self._socket.recv(copy=False)
        frames: list[bytes] = []
        while self._socket.getsockopt(zmq.RCVMORE):
            frame = self._socket.recv()
            if len(frames) <= MOST_FRAMES:
                frames.append(frame)
        if not 0 < len(frames) <= MOST_FRAMES:
            return None
        size = len(frames[-1])
        if size > self.bounds.message_bytes:
            frames[-1] = b""
        key = str(first.get("User-Id")).encode()
        address = key + bytes(first.bytes)
        self._roster.note_request(address, key, first)
        return address, Message(frames, size)

    def send(self, address: bytes, frames: Sequence[bytes]) -> bool:
        """Send a message to a peer, without waiting; return whether there is room for it."""
        try:
            self._socket.send_multipart([address[KEY_LENGTH:], *frames], zmq.DONTWAIT)
        except zmq.ZMQError as error:  # the peer is gone, or does not read
            self.lost += 1
            if error.errno == zmq.EHOSTUNREACH:
                self.closed.append(address)
            return False
        self._roster.note_reply(address)
        return True

    def flush(self, timeout_s: float) -> None:
        """Let `close` wait until what is queued is sent, for at most a time."""
        self._socket.linger = int(1000 * timeout_s)

    def close(self) -> None:
        """Close all connections."""
        self._roster.close()
        self._socket.close()
        self._guard.stop()
        self._context.term()


def _configure(router: zmq.Socket[bytes], bounds: Bounds, keys: ServerKeys) -> None:
    router.linger = 0
    router.curve_server = True
    router.curve_publickey, router.curve_secretkey = keys.own
    router.setsockopt(zmq.ROUTER_MANDATORY, 1)
    router.setsockopt(zmq.MAXMSGSIZE, TOO_LARGE * bounds.message_bytes)
    router.rcvhwm = router.sndhwm = bounds.queued_messages
    router.setsockopt(zmq.HANDSHAKE_IVL, int(1000 * bounds.handshake_s))
    router.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)


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
        """Note that a message of a connection has arrived."""
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
    with socket.socket(fileno=os.dup(descriptor)) as same:
        return host_of(same)


class Admitted:
    """The public keys in a folder, read again when the folder or a file in it has changed.

    A key that is removed admits no new connection; connections that exist stay.

    Args:
        folder: folder with one certificate file `NAME.key` for each client.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: list[tuple[str, int, int]] = []
        self._keys: set[bytes] = set()
        self._log_rate = LogRate(per_s=1.0, burst=10)
        self._read()

    def __len__(self) -> int:
        return len(self._keys)

    def callback(self, _domain: str, key: bytes) -> bool:
        """Return whether the client with a key is admitted; pyzmq calls it for each connection."""
        self._read()
        is_admitted = key in self._keys
        if not is_admitted and self._log_rate.admits():
            text = key.decode("ascii", "replace")
            log.warning("client_not_admitted", key=text, more=self._log_rate.take_left_out())
        return is_admitted

    def _read(self) -> None:
        try:
            found = self._scan()
        except OSError as error:
            if self._log_rate.admits():
                log.warning("keys_not_read", folder=str(self._folder), error=str(error))
            self._seen, self._keys = [], set()
            return
        if found != self._seen:
            self._seen = found
            self._keys = set(self._read_all(name for name, _, _ in found))

    def _scan(self) -> list[tuple[str, int, int]]:
        with os.scandir(self._folder) as entries:
            files = [entry for entry in entries if entry.name.endswith(PUBLIC)]
            return sorted((file.name, *_state(file)) for file in files[:MAX_CLIENTS])

    def _read_all(self, names: Iterable[str]) -> Iterator[bytes]:
        for name in names:
            try:
                yield read_public(self._folder / name)
            except KeysError as error:  # one bad file must not lock the others out
                log.warning("key_not_read", error=str(error))


def _state(file: os.DirEntry[str]) -> tuple[int, int]:
    """Return what changes with the content of a file: its time and size."""
    try:
        state = file.stat()
    except OSError:  # a link to nothing, or a file just removed: reading it says so
        return -1, -1
    return state.st_mtime_ns, state.st_size
