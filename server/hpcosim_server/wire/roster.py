"""Which connections a process has, within bounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hpcosim_server.wire.bounds import Bounds
from hpcosim_server.wire.peer import Peer
from hpcosim_server.wire.poller import GONE, READABLE, WRITABLE, Poller


class Roster:
    """The connections by their addresses. Those that exceed a bound are closed.

    Args:
        bounds: bounds of the connections.
        poller: waits for the connections.

    Attributes:
        by_address: the connections.
        closed: addresses of the connections that were closed since the caller emptied the list.
    """

    def __init__(self, bounds: Bounds, poller: Poller) -> None:
        self.bounds = bounds
        self.by_address: dict[bytes, Peer] = {}
        self.closed: list[bytes] = []
        self._poller = poller
        self._unchecked = 0

    def has(self, peer: Peer) -> bool:
        """Return whether a connection is still here."""
        return self.by_address.get(peer.address) is peer

    def has_room(self, now_s: float) -> bool:
        """Return whether one more connection is possible; a silent one may give way to it."""
        return len(self.by_address) < self.bounds.peers or self.make_room(now_s)

    def add(self, peer: Peer, handle: Callable[[Peer, int], None]) -> None:
        """Add a connection.

        Args:
            peer: the connection.
            handle: handles its events.
        """
        self.by_address[peer.address] = peer
        self._poller.watch(peer.socket.fileno(), partial(handle, peer))

    def watch(self, peer: Peer) -> None:
        """Wait for those events of a connection that matter now."""
        events = GONE if peer.is_parked else READABLE
        self._poller.change(peer.socket.fileno(), events | (WRITABLE if peer.queued else 0))

    def forget(self, peer: Peer) -> None:
        """Remove a connection without closing it."""
        del self.by_address[peer.address]
        self._poller.forget(peer.socket.fileno())

    def close(self, peer: Peer) -> None:
        """Close a connection, unless it is gone."""
        if self.has(peer):
            self.forget(peer)
            peer.socket.close()
            self.closed.append(peer.address)

    def make_room(self, now_s: float) -> bool:
        """Close the connection that has been silent for longest, if one is; return whether."""
        bounds = self.bounds
        silent = [
            peer
            for peer in self.by_address.values()
            if now_s - peer.active_s > (bounds.idle_s if peer.is_waiting else bounds.settled_s)
        ]
        if silent:
            self.close(min(silent, key=lambda peer: (peer.decoder.is_ready, peer.active_s)))
        return bool(silent)

    def sweep(self, now_s: float) -> None:
        """Close the connections that have been silent for too long."""
        bounds = self.bounds
        for peer in list(self.by_address.values()):
            most_s = bounds.idle_s if peer.decoder.is_ready else bounds.handshake_s
            if now_s - peer.active_s > (bounds.waiting_s if peer.is_waiting else most_s):
                self.close(peer)

    def check_total(self, more: int) -> None:
        """Close the connection with the most waiting bytes if there are too many in all.

        Args:
            more: bytes that may have been added. The sum is taken only now and then.
        """
        self._unchecked += more
        if self._unchecked < self.bounds.total_bytes // 16:
            return
        self._unchecked = 0
        total = sum(peer.waiting_bytes for peer in self.by_address.values())
        while total > self.bounds.total_bytes:
            most = max(self.by_address.values(), key=lambda peer: peer.waiting_bytes)
            total -= most.waiting_bytes
            self.close(most)
