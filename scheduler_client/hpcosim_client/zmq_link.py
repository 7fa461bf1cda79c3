"""A link over ZeroMQ's library: for servers with keys, and for unusual addresses."""

from __future__ import annotations

import logging
import time
from contextlib import suppress

import zmq

from hpcosim_client.errors import AddressError
from hpcosim_protocol.keys import ClientKeys, connect_with

LOG = logging.getLogger("hpcosim_client")

RECONNECT_MS = 20  # short, because client and server often start at the same time


class ZmqLink:
    """A ZeroMQ socket that connects, and connects again, to the address of a server.

    Args:
        address: ZeroMQ address, such as `tcp://127.0.0.1:28080`.
        timeout_s: timeout of `receive`, s.
        keys: the keys for a server with keys; None: the server has none.

    Raises:
        AddressError: the address is invalid.
    """

    def __init__(self, address: str, timeout_s: float, keys: ClientKeys | None = None) -> None:
        self._address = address
        self._context = zmq.Context()
        # A DEALER socket, unlike a REQ socket, can send again before it has received. It sends no
        # empty delimiter frame, which would cost a tenth of the time of each message.
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        self._socket.reconnect_ivl = RECONNECT_MS
        self._socket.rcvtimeo = int(timeout_s * 1000)
        connect_with(self._socket, keys)
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self.close()
            raise AddressError(address, str(error)) from None

    def send(self, data: bytes) -> None:
        """See `Link`."""
        try:
            self._socket.send(data, zmq.NOBLOCK)
        except zmq.Again:  # after a handshake that failed, libzmq does not connect again
            LOG.warning(
                "the server at %s does not admit this client: it needs --keys, or has another key, "
                "or does not have this client's public key in its folder of clients",
                self._address,
            )
            self._socket.connect(self._address)
            with suppress(zmq.Again):
                self._socket.send(data, zmq.NOBLOCK)

    def receive(self) -> bytes | None:
        """See `Link`."""
        try:
            return self._socket.recv()
        except zmq.Again:
            return None

    def has_message(self, timeout_s: float) -> bool:
        """See `Link`."""
        return bool(self._socket.poll(int(timeout_s * 1000)))

    def clock_s(self) -> float:
        """See `Link`."""
        return time.monotonic()

    def close(self) -> None:
        """See `Link`."""
        self._socket.close()
        self._context.term()
