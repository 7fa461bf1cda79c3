"""Which connections a process has, within bounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hpcosim_server.wire.bounds import Bounds
from hpcosim_server.wire.fair_share import crowded
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

    def has_room(self, now_s: float, owner: bytes) -> bool:
        """Return whether one more connection of an owner is possible; another may give way."""
        return len(self.by_address) < self.bounds.peers or self.make_room(now_s, owner)

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

    def make_room(self, now_s: float, owner: bytes | None = None) -> bool:
        """Close a connection if one gives way; return whether.

        One that has been silent for long gives way to all; one of the owner with the most
        connections to an owner that has fewer.

        Args:
            now_s: the time, s.
            owner: owner of the new connection; None: unknown.
        """
        bounds = self.bounds
        peers = list(self.by_address.values())
        giving = [
            peer
            for peer in peers
            if now_s - peer.active_s > (bounds.idle_s if peer.is_waiting else bounds.settled_s)
        ]
        if not giving and owner is not None and peers:
            most = crowded(peer.owner for peer in peers)
            theirs = [peer for peer in peers if peer.owner == most]
            if len(theirs) > 1 + sum(peer.owner == owner for peer in peers):
                giving = theirs
        if giving:
            self.close(min(giving, key=_value))
        return bool(giving)

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


def _value(peer: Peer) -> tuple[bool, bool, float]:
    """Return a key by which connections are sorted: the first gives way before the others."""
    return peer.decoder.is_ready, peer.is_waiting, peer.active_s
