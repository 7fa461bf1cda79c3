"""Accepts the connections of a listening socket, as long as there is room."""

from __future__ import annotations

import socket
from collections.abc import Callable

from hpcosim_server.wire.peer import owner_of
from hpcosim_server.wire.poller import READABLE, Poller
from hpcosim_server.wire.roster import Roster

ACCEPTED = 64  # connections in one turn
FULL_PAUSE_S = 0.1  # between two tries to accept when there are no descriptors left


class Entrance:
    """A listening socket.

    Args:
        listener: the socket, non-blocking; the caller closes it.
        poller: waits for it.
        roster: the connections that there are.
        clock: returns the time, s.
        enter: called with each new connection.
    """

    def __init__(
        self,
        listener: socket.socket,
        poller: Poller,
        roster: Roster,
        clock: Callable[[], float],
        enter: Callable[[socket.socket], None],
    ) -> None:
        self._listener = listener
        self._poller = poller
        self._roster = roster
        self._clock = clock
        self._enter = enter
        self._closed_until_s = 0.0
        poller.watch(listener.fileno(), self._accept)

    def open_again(self, now_s: float) -> None:
        """Accept connections again if there was no descriptor left a while ago."""
        if self._closed_until_s and now_s >= self._closed_until_s:
            self._closed_until_s = 0.0
            self._poller.change(self._listener.fileno(), READABLE)

    def _accept(self, _: int) -> None:
        now_s = self._clock()
        for _ in range(ACCEPTED):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # no descriptors are left, or the peer has gone
                self._closed_until_s = now_s + FULL_PAUSE_S
                self._poller.change(self._listener.fileno(), 0)
                self._roster.make_room(now_s)
                return
            if self._roster.has_room(now_s, owner_of(connection)):
                self._enter(connection)
            else:
                connection.close()
