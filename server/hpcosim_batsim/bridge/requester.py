"""Requester of Batsim's protocol: a ZeroMQ REQ socket, connected to the scheduler's REP socket."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import zmq

from hpcosim_batsim.bridge.bridge import Bridge
from hpcosim_batsim.errors import BadReplyError, InputError, SchedulerError, UnreachableError

POLL_MS = 100  # interval at which the connection is checked
LINGER_MS = 1000  # time for the last message to leave the socket
LAST_REPLY_S = 5.0  # timeout of the reply to SIMULATION_ENDS
MAX_REPLY_BYTES = 2**28
TRANSPORTS = ("tcp://", "ipc://")


@dataclass(frozen=True, slots=True)
class BatsimTimeouts:
    """Timeouts of the scheduler's replies, in wall-clock seconds.

    Attributes:
        first_reply_s: of the first reply, including the start of the scheduler.
    """

    first_reply_s: float = 60.0
    reply_s: float = 600.0


@dataclass(slots=True)
class WallTimes:
    """Wall-clock times of a run."""

    scheduling_s: float = 0.0
    simulation_s: float = 0.0


def check_address(address: str) -> None:
    """Check the form of a scheduler's address."""
    if address.startswith(TRANSPORTS):
        return
    expected = "expected tcp://HOST:PORT or ipc://PATH"
    hint = "" if "://" in address else f"; did you mean tcp://{address}?"
    raise InputError("", "scheduler address (-s)", f"{expected}, got {address!r}{hint}")


def exchange_messages(
    bridge: Bridge,
    address: str,
    timeouts: BatsimTimeouts,
    wall: WallTimes,
    show: Callable[[str], None] | None = None,
) -> None:
    """Exchange messages with the scheduler at an address until the simulation ends.

    A scheduler that violates the protocol gets `SIMULATION_ENDS` with the error.

    Args:
        show: called with each message and each reply as text, in Batsim's words; None: they are
            not shown.

    Raises:
        BadReplyError: a reply is invalid.
        StuckError: the simulation makes no progress.
        UnreachableError: the scheduler does not connect, disconnects or does not reply.
    """
    began_s = time.perf_counter()
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        requester = Requester(socket, address, show)
        try:
            requester.connect()
            _exchange_messages(bridge, requester, timeouts)
        finally:
            requester.close()
            wall.scheduling_s = requester.waited_s
            wall.simulation_s = time.perf_counter() - began_s


def _exchange_messages(bridge: Bridge, requester: Requester, timeouts: BatsimTimeouts) -> None:
    requester.send(bridge.first_message())
    reply = requester.receive(timeouts.first_reply_s)
    while True:
        try:
            message = bridge.next_message(reply)
        except SchedulerError as error:
            requester.send(bridge.error_message(error))
            requester.await_last_reply()
            raise
        requester.send(message)
        if bridge.ended:
            requester.await_last_reply()
            return
        reply = requester.receive(timeouts.reply_s)


class Requester:
    """The socket and the state of its connection.

    Attributes:
        waited_s: wall-clock time spent waiting for replies, s.
    """

    def __init__(
        self, socket: zmq.Socket[bytes], address: str, show: Callable[[str], None] | None
    ) -> None:
        self._socket = socket
        self._address = address
        self._show = show
        self.waited_s = 0.0
        socket.linger = LINGER_MS
        socket.rcvtimeo = POLL_MS
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_REPLY_BYTES)
        self._monitor = socket.get_monitor_socket(zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED)
        self._connected = False

    def connect(self) -> None:
        """Connect to the scheduler, which may start later."""
        try:
            self._socket.connect(self._address)
        except zmq.ZMQError as error:
            raise UnreachableError(
                f"cannot connect to the scheduler address {self._address!r}: {error}; "
                "expected tcp://HOST:PORT or ipc://PATH"
            ) from None

    def send(self, message: bytes) -> None:
        """Send a message."""
        if self._show is not None:
            self._show(f"Sending '{printable(message)}'")
        self._socket.send(message)

    def receive(self, timeout_s: float) -> bytes:
        """Return the reply."""
        began_s = time.perf_counter()
        try:
            reply = self._receive(began_s + timeout_s, timeout_s)
        finally:
            self.waited_s += time.perf_counter() - began_s
        if self._show is not None:
            self._show(f"Received '{printable(reply)}'")
        return reply

    def await_last_reply(self) -> None:
        """Wait for the reply to the end of the simulation, whose content has no effect."""
        try:
            self.receive(LAST_REPLY_S)
        except SchedulerError:
            return

    def close(self) -> None:
        """Close what the socket does not close itself."""
        self._socket.disable_monitor()
        self._monitor.close(0)

    def _receive(self, until_s: float, timeout_s: float) -> bytes:
        socket = self._socket
        while True:
            try:
                reply = socket.recv()
            except zmq.Again:
                self._check_connection(until_s, timeout_s)
                continue
            if not socket.getsockopt(zmq.RCVMORE):
                return reply
            while socket.getsockopt(zmq.RCVMORE):
                socket.recv()
            raise BadReplyError("expected one ZeroMQ frame, got several")

    def _check_connection(self, until_s: float, timeout_s: float) -> None:
        while self._monitor.poll(0):
            from zmq.utils.monitor import parse_monitor_message  # this module imports asyncio

            event = parse_monitor_message(self._monitor.recv_multipart())
            self._connected = event["event"] == zmq.EVENT_CONNECTED
            if not self._connected:
                raise UnreachableError(
                    f"the scheduler at {self._address} closed the connection; its output may name "
                    "the reason"
                )
        if time.perf_counter() < until_s:
            return
        if self._connected:
            raise UnreachableError(
                f"the scheduler at {self._address} did not reply within {timeout_s:g} s; "
                "raise --timeout-s if it needs longer"
            )
        raise UnreachableError(
            f"no scheduler listens at {self._address} after {timeout_s:g} s; start it, or raise "
            "--hello-timeout-s"
        )


def printable(message: bytes) -> str:
    """Return a message as text on one line, without control characters.

    A zero byte at the end, as in Batsim 5, is left out.
    """
    text = message.removesuffix(b"\0").decode(errors="replace")
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
