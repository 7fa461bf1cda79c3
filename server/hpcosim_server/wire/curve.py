"""The connections of a server with keys: CurveZMQ by libzmq, with a list of admitted clients.

libzmq does the cryptography (RFC 26/CURVEZMQ). Its faults that `zmtp` names are not open to
strangers here: a connection without an admitted key ends before libzmq reads its routing identity
or a message.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

import zmq

from hpcosim_protocol.keys import ServerKeys
from hpcosim_protocol.zmtp import MOST_FRAMES, TOO_LARGE, Message
from hpcosim_server import log
from hpcosim_server.errors import BindError
from hpcosim_server.wire.address import KEY_LENGTH
from hpcosim_server.wire.admitted import Admitted
from hpcosim_server.wire.bounds import Bounds
from hpcosim_server.wire.curve_roster import CurveRoster
from hpcosim_server.wire.listening import endpoint_of

HEARTBEAT_MS = 60_000  # interval of pings, which find hosts that are gone


class CurvePeers:
    """The clients of a listening socket that have admitted keys; as `Peers` for the caller.

    Args:
        listener: the listening socket; the caller closes it.
        keys: the keys of the server.
        bounds: bounds of the connections.

    Attributes:
        lost: number of messages that were lost because their peer was gone or did not read.
        closed: addresses of the connections that were closed since the caller emptied the list.

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
