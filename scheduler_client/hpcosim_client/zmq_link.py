"""A link over ZeroMQ's library: for servers with keys, and for unusual addresses."""

from __future__ import annotations

import time
from contextlib import suppress

import zmq
from zmq.utils.monitor import recv_monitor_message

from hpcosim_client.errors import AddressError
from hpcosim_protocol.keys import ClientKeys, connect_with

RECONNECT_MS = 20  # short, because client and server often start at the same time
EVENTS = "inproc://events"
CUT = 3  # handshakes without an end, one after the other, before they are a problem
MONITORED = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)
NOT_ADMITTED = (
    "the server does not admit this client: the public key of its keys is not in the server's "
    "folder of clients"
)
OTHER_SERVER = (
    "the server closes connections: it probably has another key than this client's server.key "
    "(--server-key)"
)
NO_KEYS = "the server has no keys, and this client has: leave --keys out, or check the address"
NEEDS_KEYS = "the server has keys, and this client has none: name them with --keys (keys=)"


class ZmqLink:
    """A ZeroMQ socket that connects, and connects again, to the address of a server.

    Args:
        address: ZeroMQ address, such as `tcp://127.0.0.1:28080`.
        keys: the keys for a server with keys; None: the server has none.

    Raises:
        AddressError: the address is invalid.
    """

    def __init__(self, address: str, keys: ClientKeys | None = None) -> None:
        self._address = address
        self._mismatch = NEEDS_KEYS if keys is None else NO_KEYS
        self._problem = ""
        self._cut = 0
        self._context = zmq.Context()
        # A DEALER socket, unlike a REQ socket, can send again before it has received. It sends no
        # empty delimiter frame, which would cost a tenth of the time of each message.
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        self._socket.reconnect_ivl = RECONNECT_MS
        self._receive_ms = self._socket.rcvtimeo = 0
        self._socket.monitor(EVENTS, MONITORED)
        self._events = self._context.socket(zmq.PAIR)
        self._events.rcvhwm = 0  # with a limit, libzmq's thread would wait for a reader
        self._events.connect(EVENTS)
        connect_with(self._socket, keys)
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self.close()
            raise AddressError(address, str(error)) from None

    @property
    def problem(self) -> str:
        """See `Link`."""
        while self._events.poll(0):
            event = recv_monitor_message(self._events)["event"]
            self._cut = self._cut + 1 if event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL else 0
            if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                self._problem = NOT_ADMITTED
            elif event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                self._problem = self._mismatch
            elif self._cut >= CUT:
                self._problem = OTHER_SERVER
            elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._problem = ""
        return self._problem

    def send(self, data: bytes) -> None:
        """See `Link`."""
        try:
            self._socket.send(data, zmq.NOBLOCK)
        except zmq.Again:  # after a handshake that failed, libzmq does not connect again
            self._socket.connect(self._address)
            with suppress(zmq.Again):
                self._socket.send(data, zmq.NOBLOCK)

    def receive(self, timeout_s: float) -> bytes | None:
        """See `Link`."""
        timeout_ms = int(1000 * timeout_s)
        if timeout_ms != self._receive_ms:
            self._receive_ms = self._socket.rcvtimeo = timeout_ms
        try:
            return self._socket.recv()
        except zmq.Again:
            return None

    def clock_s(self) -> float:
        """See `Link`."""
        return time.monotonic()

    def close(self) -> None:
        """See `Link`."""
        self._socket.disable_monitor()
        self._events.close(linger=0)
        self._socket.close()
        self._context.term()
