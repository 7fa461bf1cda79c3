"""Connections of clients: messages in, messages out, in one thread."""

from __future__ import annotations

import secrets
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from hpcosim_protocol.errors import WireError
from hpcosim_protocol.zmtp import Decoder, Message, encoded, ready
from hpcosim_server.wire.listener import Bounds
from hpcosim_server.wire.peer import MovedConnection, Peer, crowded, owner_of, size_of
from hpcosim_server.wire.post import GONE, READABLE, WRITABLE, Poller

READ_BYTES = 2**18  # of one connection in one turn
SWEEP_S = 0.5

ACCEPTED = 64  # connections in one turn
FULL_PAUSE_S = 0.1  # between two tries to accept when there are no descriptors left


class Peers:
    """Connections of clients, accepted from a listening socket or adopted.

    Args:
        listener: the listening socket, non-blocking; the caller closes it. None: see `listen`.
    """

    def __init__(
        self,
        listener: socket.socket | None = None,
        bounds: Bounds | None = None,
        poller: Poller | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.bounds = bounds or Bounds()
        self.lost = 0
        self._owns_poller = poller is None
        self._poller = poller or Poller()
        self._roster = Roster(self.bounds, self._poller)
        self.closed = self._roster.closed
        self._clock = clock
        self._listener: socket.socket | None = None
        self._closed_until_s = 0.0  # the listener, if there was no descriptor left
        self._greeting = ready(b"ROUTER")
        # Other than those of a front before this one, so that no reply goes astray.
        self._prefix = secrets.token_bytes(4)
        self._number = 0
        self._turns: deque[Peer] = deque()
        self._turns_left = 0
        self._room = memoryview(bytearray(READ_BYTES))
        self._sweep_s = 0.0
        if listener is not None:
            self.listen(listener)

    def __len__(self) -> int:
        return len(self._roster.by_address)

    def has(self, address: bytes) -> bool:
        """Return whether there is a connection."""
        return address in self._roster.by_address

    @property
    def addresses(self) -> list[bytes]:
        """The addresses of the connections."""
        return list(self._roster.by_address)

    def listen(self, listener: socket.socket) -> None:
        """Accept connections from now on."""
        self._listener = listener
        self._poller.watch(listener.fileno(), self._accept)

    def receive(self, timeout_s: float) -> tuple[bytes, Message] | None:
        """Return the next message and the address of its sender; None: none came in time.

        Each peer with messages has its turn after one message of each other. The wait ends when
        a descriptor of the caller has had an event, too.
        """
        if self._turns_left <= 0:
            self._poll(0.0 if self._turns else timeout_s)
            self._turns_left = len(self._turns)
        while self._turns:
            self._turns_left -= 1
            peer = self._turns.popleft()
            message = self._next(peer)
            if message is None:
                peer.has_turn = False
                continue
            if peer.decoder.held_bytes:
                self._turns.append(peer)
            else:  # the usual case, without another look at the sockets
                peer.has_turn = False
            peer.active_s = self._clock()
            peer.is_waiting = True
            return peer.address, message
        return None

    def send(self, address: bytes, frames: Sequence[bytes]) -> bool:
        """Send a message to a peer, without waiting for it.

        Returns:
            Whether the peer is there and has room for the message; otherwise it is lost.
        """
        peer = self._roster.by_address.get(address)
        if peer is None:
            return False
        peer.is_waiting = False
        peer.active_s = self._clock()
        pieces = encoded(frames)
        if peer.queued:
            size = peer.queued_bytes + size_of(pieces)
            many = len(peer.queued) >= self.bounds.queued_messages
            if many or size > self.bounds.queued_bytes:
                self.lost += 1
                return False
        self._send(peer, pieces)
        if peer.queued_bytes:
            self._roster.check_total(peer.queued_bytes)
        return True

    def park(self, address: bytes) -> bool:
        """Read nothing more of a peer until it is unparked; return whether it is there."""
        return self._set_parked(address, is_parked=True)

    def unpark(self, address: bytes) -> bool:
        """Read messages of a parked peer again; return whether it is there."""
        return self._set_parked(address, is_parked=False)

    def release(self, address: bytes) -> MovedConnection | None:
        """Give a connection away, with all that is not read or not sent; None: it is closed."""
        peer = self._roster.by_address.get(address)
        if peer is None or not peer.decoder.is_ready:
            return None
        self._roster.forget(peer)
        queued = b"".join(piece for pieces in peer.queued for piece in pieces)
        return MovedConnection(peer.socket, address, peer.decoder.take_rest(), queued)

    def adopt(self, moved: MovedConnection, *, is_waiting: bool = False) -> bool:
        """Go on with a connection whose handshake is over.

        Args:
            is_waiting: whether a message has been read that has no reply so far.

        Returns:
            Whether there is room for it; otherwise it is closed.
        """
        now_s = self._clock()
        is_known = moved.address in self._roster.by_address
        if is_known or not self._roster.has_room(now_s, owner_of(*moved[:2])):
            moved.connection.close()
            return False
        peer = self._add(moved.connection, moved.address, now_s)
        peer.decoder.go_on(moved.rest)
        peer.is_waiting = is_waiting
        if moved.queued:
            self._send(peer, [moved.queued])
        self._give_turn(peer)
        self._roster.check_total(peer.waiting_bytes)
        return True

    def drop(self, address: bytes) -> None:
        """Close the connection of a peer."""
        peer = self._roster.by_address.get(address)
        if peer is not None:
            self._roster.close(peer)

    def flush(self, timeout_s: float) -> None:
        """Send what is queued, for at most a time."""
        until_s = time.monotonic() + timeout_s
        peers = self._roster.by_address
        while waiting := {each.socket.fileno(): each for each in peers.values() if each.queued}:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return
            poll = select.poll()
            for descriptor in waiting:
                poll.register(descriptor, select.POLLOUT)
            for descriptor, _ in poll.poll(1000 * left_s):
                self._send_queued(waiting[descriptor])

    def close(self) -> None:
        """Close all connections."""
        for peer in list(self._roster.by_address.values()):
            self._roster.close(peer)
        if self._owns_poller:
            self._poller.close()

    def _poll(self, timeout_s: float) -> None:
        self._poller.wait(timeout_s)
        now_s = self._clock()
        if now_s >= self._sweep_s:
            self._sweep_s = now_s + SWEEP_S
            self._roster.sweep(now_s)
            if self._listener is not None and 0.0 < self._closed_until_s <= now_s:
                self._closed_until_s = 0.0
                self._poller.change(self._listener.fileno(), READABLE)

    def _on_events(self, peer: Peer, events: int) -> None:
        if events & WRITABLE:
            self._send_queued(peer)
        if events & ~WRITABLE:
            if peer.is_parked:
                self._roster.close(peer)
            elif not peer.has_turn:  # first come the messages that have arrived
                self._read_from(peer)

    def _read_from(self, peer: Peer) -> None:
        if not self._roster.has(peer):
            return
        try:
            size = peer.socket.recv_into(self._room)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if not size:
            self._roster.close(peer)
            return
        peer.decoder.feed(self._room[:size])
        peer.has_turn = True
        self._turns.append(peer)
        self._roster.check_total(size)

    def _next(self, peer: Peer) -> Message | None:
        """Return the next message of a peer; None: it has none, is parked, or not here."""
        if peer.is_parked or not self._roster.has(peer):
            return None
        try:
            message = peer.decoder.next()
        except WireError:
            self._roster.close(peer)
            return None
        if peer.decoder.control:
            control, peer.decoder.control = peer.decoder.control, b""
            if not peer.queued:
                self._send(peer, [control])
        return message

    def _give_turn(self, peer: Peer) -> None:
        if peer.decoder.held_bytes and not peer.has_turn:
            peer.has_turn = True
            self._turns.append(peer)

    def _set_parked(self, address: bytes, *, is_parked: bool) -> bool:
        peer = self._roster.by_address.get(address)
        if peer is None:
            return False
        peer.is_parked = is_parked
        self._roster.watch(peer)
        if not is_parked:
            self._give_turn(peer)
        return True

    def _accept(self, _: int) -> None:
        assert self._listener is not None
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

    def _enter(self, connection: socket.socket) -> None:
        self._number += 1
        address = self._prefix + self._number.to_bytes(6, "big")
        self._send(self._add(connection, address, self._clock()), [self._greeting])

    def _add(self, connection: socket.socket, address: bytes, now_s: float) -> Peer:
        peer = Peer(connection, address, Decoder(self.bounds.message_bytes), now_s)
        self._roster.add(peer, self._on_events)
        return peer

    def _send(self, peer: Peer, pieces: Sequence[bytes]) -> None:
        was_queued = bool(peer.queued)
        try:
            peer.send(pieces)
        except OSError:
            self._roster.close(peer)
            return
        if peer.queued and not was_queued:
            self._roster.watch(peer)

    def _send_queued(self, peer: Peer) -> None:
        try:
            peer.send_queued()
        except OSError:
            self._roster.close(peer)
            return
        if not peer.queued:
            self._roster.watch(peer)


class Roster:
    """The connections by their addresses. Those that exceed a bound are closed."""

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
        """Add a connection."""
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
            self.close(
                min(
                    giving, key=lambda peer: (peer.decoder.is_ready, peer.is_waiting, peer.active_s)
                )
            )
        return bool(giving)

    def sweep(self, now_s: float) -> None:
        """Close the connections that have been silent for too long."""
        bounds = self.bounds
        for peer in list(self.by_address.values()):
            most_s = bounds.idle_s if peer.decoder.is_ready else bounds.handshake_s
            if now_s - peer.active_s > (bounds.waiting_s if peer.is_waiting else most_s):
                self.close(peer)

    def check_total(self, more: int) -> None:
        """Close the connection with the most waiting bytes if there are too many in all."""
        self._unchecked += more
        if self._unchecked < self.bounds.total_bytes // 16:
            return
        self._unchecked = 0
        total = sum(peer.waiting_bytes for peer in self.by_address.values())
        while total > self.bounds.total_bytes:
            most = max(self.by_address.values(), key=lambda peer: peer.waiting_bytes)
            total -= most.waiting_bytes
            self.close(most)
