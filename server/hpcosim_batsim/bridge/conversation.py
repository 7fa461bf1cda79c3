"""A bridge and its scheduler: a ZeroMQ REQ socket connected to the scheduler's REP."""

from __future__ import annotations

import time
from dataclasses import dataclass

import zmq
from zmq.utils.monitor import parse_monitor_message

from hpcosim_batsim.bridge.bridge import Bridge
from hpcosim_batsim.errors import BadReplyError, SchedulerError, SilentError

TICK_MS = 100  # how soon it is noticed that a scheduler is gone
LINGER_MS = 1000  # how long the last message may take to leave
GOODBYE_S = 5.0  # how long the answer to the last message is waited for
MOST_BYTES = 2**28  # of a reply


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a scheduler is waited for, in wall seconds.

    Attributes:
        hello_s: for its first reply; it may not have been started yet.
        give_up_s: for any other.
    """

    hello_s: float = 60.0
    give_up_s: float = 600.0


@dataclass(slots=True)
class Wall:
    """Wall seconds of a run.

    Attributes:
        scheduling_s: spent waiting for the scheduler.
        simulation_s: spent in all.
    """

    scheduling_s: float = 0.0
    simulation_s: float = 0.0


def converse(bridge: Bridge, address: str, patience: Patience, wall: Wall) -> None:
    """Let the scheduler at an address decide in a simulation, up to its end.

    One that breaks the protocol is told so in the `SIMULATION_ENDS` it gets.

    Args:
        bridge: the simulation.
        address: where the scheduler listens, as `tcp://localhost:28000`.
        patience: how long it may take.
        wall: brought up to date as it goes on.

    Raises:
        BadReplyError, StuckError: the scheduler did something wrong.
        SilentError: it did not come, or is gone; or the address can't be.
    """
    began_s = time.perf_counter()
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        line = _Line(socket, address)
        try:
            line.connect()
            _converse(bridge, line, patience)
        finally:
            line.close()
            wall.scheduling_s = line.waited_s
            wall.simulation_s = time.perf_counter() - began_s


def _converse(bridge: Bridge, line: _Line, patience: Patience) -> None:
    line.send(bridge.begin())
    reply = line.receive(patience.hello_s)
    while True:
        try:
            message = bridge.answer(reply)
        except SchedulerError as error:
            line.send(bridge.last_words(error))
            line.hear_out()
            raise
        line.send(message)
        if bridge.over:
            line.hear_out()
            return
        reply = line.receive(patience.give_up_s)


class _Line:
    """The socket, and who is at its other end.

    Attributes:
        waited_s: wall seconds spent waiting for replies.
    """

    def __init__(self, socket: zmq.Socket[bytes], address: str) -> None:
        self._socket = socket
        self._address = address
        self.waited_s = 0.0
        socket.linger = LINGER_MS
        socket.rcvtimeo = TICK_MS
        socket.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES)
        self._monitor = socket.get_monitor_socket(zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED)
        self._connected = False

    def connect(self) -> None:
        try:
            self._socket.connect(self._address)
        except zmq.ZMQError as error:
            raise SilentError(f"there can be no scheduler at {self._address!r}: {error}") from None

    def send(self, message: bytes) -> None:
        self._socket.send(message)

    def receive(self, patience_s: float) -> bytes:
        """Return the reply.

        Raises:
            BadReplyError: it is in several frames.
            SilentError: the scheduler is gone, or takes longer than that.
        """
        began_s = time.perf_counter()
        try:
            return self._receive(began_s + patience_s, patience_s)
        finally:
            self.waited_s += time.perf_counter() - began_s

    def hear_out(self) -> None:
        """Wait a moment for the answer to the last message, which nothing depends on."""
        try:
            self.receive(GOODBYE_S)
        except SchedulerError:
            return

    def close(self) -> None:
        self._socket.disable_monitor()
        self._monitor.close(0)

    def _receive(self, until_s: float, patience_s: float) -> bytes:
        socket = self._socket
        while True:
            try:
                reply = socket.recv()
            except zmq.Again:
                self._check_there(until_s, patience_s)
                continue
            if not socket.getsockopt(zmq.RCVMORE):
                return reply
            while socket.getsockopt(zmq.RCVMORE):
                socket.recv()
            raise BadReplyError("it must be one frame, not several")

    def _check_there(self, until_s: float, patience_s: float) -> None:
        while self._monitor.poll(0):
            event = parse_monitor_message(self._monitor.recv_multipart())
            self._connected = event["event"] == zmq.EVENT_CONNECTED
            if not self._connected:
                raise SilentError(f"the scheduler at {self._address} is gone: it hung up")
        if time.perf_counter() < until_s:
            return
        if self._connected:
            raise SilentError(f"the scheduler at {self._address} was silent for {patience_s:g} s")
        raise SilentError(
            f"no scheduler came: in {patience_s:g} s nobody listened at {self._address}"
        )
