"""Clients with keys: libzmq has their connections, and each has an ordinary one behind the gate."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import TYPE_CHECKING

from hpcosim_server import log
from hpcosim_server.service.requests import too_large
from hpcosim_server.wire.log_rate import LogRate
from hpcosim_server.wire.peer import Moved
from hpcosim_server.wire.peers import Peers
from hpcosim_server.wire.poller import Poller

if TYPE_CHECKING:
    from hpcosim_server.wire.curve import CurvePeers


SOCKETS = 3
"""Descriptors of a client: one of libzmq, and until a worker has one, both ends of a pair."""
TURN = 64  # messages of each direction in one turn
MOST_REPLY_BYTES = 2**31
NEVER_S = float("inf")


class Gate:
    """Copies messages between clients with keys and a local connection for each of them.

    A socket of libzmq cannot move to another process. So each client has a pair of sockets: one end
    stays here, the other is a connection without keys, which moves as any other.

    Args:
        curve: the clients.
        inside: gets the other ends, with the addresses of the clients.
        poller: waits for both.
    """

    def __init__(self, curve: CurvePeers, inside: Peers, poller: Poller) -> None:
        self._curve = curve
        self._inside = inside
        self._poller = poller
        self._most_bytes = inside.bounds.message_bytes
        bounds = replace(  # an end lives as long as the connection of libzmq, which has bounds
            inside.bounds,
            message_bytes=MOST_REPLY_BYTES,
            idle_s=NEVER_S,
            waiting_s=NEVER_S,
            settled_s=NEVER_S,
        )
        self._ends = Peers(None, bounds, poller)
        self._log_rate = LogRate(per_s=1.0, burst=10)
        poller.watch(curve.fileno(), lambda _: None)  # `pump` reads it

    @property
    def lost(self) -> int:
        """Number of messages that were lost because their peer was gone or did not read."""
        return self._curve.lost + self._ends.lost

    def pump(self) -> bool:
        """Copy some messages in each direction; return whether there are more."""
        for _ in range(TURN):
            if not self._curve.has_message:
                break
            if found := self._curve.receive(0.0):
                address, message = found
                self._drop_closed()  # of which one may have had the same address
                self._copy_in(address, message.frames, message.size)
        for _ in range(TURN):
            found = self._ends.receive(0.0)
            if found is None:
                break
            address, message = found
            self._curve.send(address, message.frames)
        self._drop_closed()
        self._ends.closed.clear()
        return found is not None or self._curve.has_message

    def close(self, timeout_s: float) -> None:
        """Copy the last replies, for at most a time, and close all connections."""
        while found := self._ends.receive(0.0):
            self._curve.send(found[0], found[1].frames)
        self._curve.flush(timeout_s)
        self._ends.close()
        self._curve.close()

    def _copy_in(self, address: bytes, frames: list[bytes], size: int) -> None:
        if size > self._most_bytes:
            self._curve.send(address, [*frames[:-1], too_large(size, self._most_bytes)])
        elif not self._ends.has(address) and not self._connect(address):
            if self._log_rate.admits():
                log.warning("too_many_clients", more=self._log_rate.take_left_out())
        else:
            self._ends.send(address, frames)

    def _drop_closed(self) -> None:
        """Close the ends of the clients that are gone."""
        for address in self._curve.closed:
            self._ends.drop(address)
        self._curve.closed.clear()

    def _connect(self, address: bytes) -> bool:
        """Make the connection of a client; return whether there is room for it."""
        try:
            here, there = socket.socketpair()
        except OSError:  # no descriptors are left
            return False
        if not self._ends.adopt(Moved(here, address)):
            there.close()
            return False
        return self._inside.adopt(Moved(there, address))
