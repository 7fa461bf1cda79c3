"""The clients' ends of real local connections, which carry what a simulated network delivers."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from contextlib import suppress

from hpcosim_protocol.errors import WireError
from hpcosim_protocol.zmtp import Decoder, encoded, ready
from support.fault.simulator import Simulator

MOST_BYTES = 2**24
LATER_S = 0.5
"""Longest time between two parts of a message, s."""


class ClientWire:
    """The connection of one process of a client, which connects again when it is closed.

    Args:
        simulator: the simulated time.
        connect: returns a new connection to the front.
        chance: draws how the bytes are cut.
        cuts: probability that a message arrives in two parts.
        deliver: called with each reply.

    Attributes:
        is_over: whether the process of the client has ended.
        sent: number of messages in the present connection.
        answered: number of replies in it.
        generation: number of connections that are closed; what was on its way in them is lost.
    """

    def __init__(
        self,
        simulator: Simulator,
        connect: Callable[[], socket.socket],
        chance: random.Random,
        cuts: float,
        deliver: Callable[[bytes], None],
    ) -> None:
        self.is_over = False
        self.generation = self.sent = self.answered = 0
        self._simulator = simulator
        self._connect = connect
        self._chance = chance
        self._cuts = cuts
        self._deliver = deliver
        self._socket: socket.socket | None = None
        self._decoder = Decoder(MOST_BYTES, (b"ROUTER",))
        self._unsent = b""

    def send(self, data: bytes) -> None:
        """Send a message, perhaps in two parts."""
        if self.is_over:
            return
        if self._socket is None:
            self._socket = self._connect()
            self._decoder = Decoder(MOST_BYTES, (b"ROUTER",))
            self._unsent = ready(b"DEALER")
            self.sent = self.answered = 0
        self.sent += 1
        self._unsent += b"".join(encoded([b"", data] if self._chance.random() < 0.5 else [data]))
        if self._chance.random() < self._cuts:
            self._write(self._chance.randrange(len(self._unsent)))
            self._simulator.after(self._chance.uniform(0.0, LATER_S), self.write)
        else:
            self.write()

    def write(self) -> None:
        """Send what is left."""
        self._write(len(self._unsent))

    def read(self) -> None:
        """Read replies."""
        if self._socket is None:
            return
        try:
            while data := self._socket.recv(2**18):
                self._decoder.feed(data)
                while (message := self._decoder.next()) is not None:
                    self.answered += 1
                    self._deliver(message.frames[-1])
            self._drop()  # the other end is closed
        except BlockingIOError:
            pass
        except (OSError, WireError):
            self._drop()

    def close(self) -> None:
        """End the connection for ever."""
        if not self.is_over:
            self.is_over = True
            self._shut()

    def _write(self, size: int) -> None:
        if self._socket is None:
            return
        with suppress(BlockingIOError):
            try:
                sent = self._socket.send(self._unsent[:size]) if size else 0
                self._unsent = self._unsent[sent:]
            except (BrokenPipeError, ConnectionResetError):
                self._drop()

    def _drop(self) -> None:
        """Note that the server has closed the connection."""
        self.generation += self._socket is not None
        self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._unsent = None, b""
