"""All connections of a listening socket: messages in, messages out, in one thread."""

from __future__ import annotations

import secrets
import select
import socket
import time
from collections import deque
from collections.abc import Sequence

from hpcosim_server.errors import WireError
from hpcosim_server.wire.bounds import Bounds
from hpcosim_server.wire.peer import Peer, size_of
from hpcosim_server.wire.zmtp import CLIENTS, MOST_FRAMES, Decoder, Message, encoded, ready

READ_BYTES = 2**18  # of one connection in one turn
ACCEPTED = 64  # connections in one turn
READABLE, WRITABLE = select.EPOLLIN, select.EPOLLOUT
SWEEP_S = 0.5
FULL_PAUSE_S = 0.1  # between two tries to accept when there are no descriptors left


class Peers:
    """The connections of a listening socket.

    Args:
        listener: the listening socket, non-blocking; the caller closes it.
        bounds: bounds of the connections.
        most_frames: most frames of a message.

    Attributes:
        lost: number of messages that were lost because their peer did not read.
        closed: addresses of the connections that were closed since the caller emptied the list.
    """

    def __init__(
        self,
        listener: socket.socket,
        bounds: Bounds | None = None,
        most_frames: int = MOST_FRAMES,
    ) -> None:
        self.bounds = bounds or Bounds()
        self.lost = 0
        self.closed: list[bytes] = []
        self._listener = listener
        self._greeting = ready(b"ROUTER")
        self._most_frames = most_frames
        self._epoll = select.epoll()
        self._epoll.register(listener.fileno(), READABLE)
        self._by_descriptor: dict[int, Peer] = {}
        self._by_address: dict[bytes, Peer] = {}
        # Other than those of a front before this one, so that no reply goes astray.
        self._prefix = secrets.token_bytes(4)
        self._number = 0
        self._turns: deque[Peer] = deque()
        self._turns_left = self._unchecked = 0
        self._room = bytearray(READ_BYTES)
        self._sweep_s = self._accept_s = 0.0

    def __len__(self) -> int:
        return len(self._by_address)

    def fileno(self) -> int:
        """Return a descriptor that is readable when `receive` has something to do."""
        return self._epoll.fileno()

    @property
    def has_message(self) -> bool:
        """Whether `receive` returns a message without waiting."""
        return bool(self._turns)

    def receive(self, timeout_s: float) -> tuple[bytes, Message] | None:
        """Return the next message and the address of its sender; None: none came in time.

        Each peer with messages has its turn after one message of each other.
        """
        if self._turns_left <= 0:
            self._read(0.0 if self._turns else timeout_s)
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
            else:
                peer.has_turn = False
            peer.heard_s = time.monotonic()
            peer.is_waiting = True
            return peer.address, message
        return None

    def send(self, address: bytes, frames: Sequence[bytes]) -> bool:
        """Send a message to a peer, without waiting for it.

        Returns:
            Whether the peer is there and has room for the message; otherwise it is lost.
        """
        peer = self._by_address.get(address)
        if peer is None:
            return False
        peer.is_waiting = False
        pieces = encoded(frames)
        if peer.queued and self._is_full(peer, pieces):
            self.lost += 1
            return False
        self._send(peer, pieces)
        self._check_total(peer.queued_bytes)
        return True

    def drop(self, address: bytes) -> None:
        """Close the connection of a peer."""
        peer = self._by_address.get(address)
        if peer is not None:
            self._close(peer)

    def flush(self, timeout_s: float) -> None:
        """Send what is queued, for at most a time."""
        until_s = time.monotonic() + timeout_s
        while waiting := {peer.socket.fileno(): peer for peer in self._by_queue()}:
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
        for peer in list(self._by_address.values()):
            self._close(peer)
        self._epoll.close()

    def _read(self, timeout_s: float) -> None:
        """Wait for events and handle them."""
        try:
            found = self._epoll.poll(timeout_s)
        except InterruptedError:
            return
        for descriptor, events in found:
            if descriptor == self._listener.fileno():
                self._accept()
                continue
            peer = self._by_descriptor.get(descriptor)
            if peer is None:
                continue
            if events & WRITABLE:
                self._send_queued(peer)
            if events & ~WRITABLE:
                self._read_from(peer)
        now_s = time.monotonic()
        if now_s >= self._sweep_s:
            self._sweep_s = now_s + SWEEP_S
            self._sweep(now_s)

    def _read_from(self, peer: Peer) -> None:
        if peer.has_turn or peer.address not in self._by_address:
            return  # first come the messages that have arrived
        try:
            size = peer.socket.recv_into(self._room)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if not size:
            self._close(peer)
            return
        peer.decoder.feed(memoryview(self._room)[:size])
        peer.has_turn = True
        self._turns.append(peer)
        self._check_total(size)

    def _next(self, peer: Peer) -> Message | None:
        """Return the next message of a peer; None: it has none, or is closed."""
        if peer.address not in self._by_address:
            return None
        try:
            message = peer.decoder.next()
        except WireError:
            self._close(peer)
            return None
        if peer.decoder.control:
            control, peer.decoder.control = peer.decoder.control, b""
            if not peer.queued:
                self._send(peer, [control])
        return message

    def _accept(self) -> None:
        now_s = time.monotonic()
        if now_s < self._accept_s:
            return
        for _ in range(ACCEPTED):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # no descriptors are left, or the peer has gone
                self._accept_s = now_s + FULL_PAUSE_S
                self._pause_accepting()
                self._make_room(now_s)
                return
            if len(self._by_address) >= self.bounds.peers and not self._make_room(now_s):
                connection.close()
                continue
            self._add(connection, now_s)

    def _add(self, connection: socket.socket, now_s: float) -> None:
        self._number += 1
        address = self._prefix + self._number.to_bytes(6, "big")
        decoder = Decoder(self.bounds.message_bytes, CLIENTS, self._most_frames)
        peer = Peer(connection, address, decoder, now_s)
        self._by_address[address] = self._by_descriptor[connection.fileno()] = peer
        self._epoll.register(connection.fileno(), READABLE)
        self._send(peer, [self._greeting])

    def _pause_accepting(self) -> None:
        self._epoll.modify(self._listener.fileno(), 0)

    def _make_room(self, now_s: float) -> bool:
        """Close the connection that has been silent for longest, if one is; return whether."""
        bounds = self.bounds
        silent = [
            peer
            for peer in self._by_address.values()
            if now_s - peer.heard_s > (bounds.idle_s if peer.is_waiting else bounds.settled_s)
        ]
        if silent:
            self._close(min(silent, key=lambda peer: (peer.decoder.is_ready, peer.heard_s)))
        return bool(silent)

    def _sweep(self, now_s: float) -> None:
        """Close the connections that are of no use, and accept again."""
        if self._accept_s and now_s >= self._accept_s:
            self._accept_s = 0.0
            self._epoll.modify(self._listener.fileno(), READABLE)
        for peer in list(self._by_address.values()):
            most_s = self.bounds.idle_s if peer.decoder.is_ready else self.bounds.handshake_s
            if now_s - peer.heard_s > (self.bounds.waiting_s if peer.is_waiting else most_s):
                self._close(peer)

    def _send(self, peer: Peer, pieces: Sequence[bytes]) -> None:
        was_queued = bool(peer.queued)
        try:
            peer.send(pieces)
        except OSError:
            self._close(peer)
            return
        if peer.queued and not was_queued:
            self._epoll.modify(peer.socket.fileno(), READABLE | WRITABLE)

    def _send_queued(self, peer: Peer) -> None:
        try:
            peer.send_queued()
        except OSError:
            self._close(peer)
            return
        if not peer.queued:
            self._epoll.modify(peer.socket.fileno(), READABLE)

    def _is_full(self, peer: Peer, pieces: Sequence[bytes]) -> bool:
        size = peer.queued_bytes + size_of(pieces)
        return len(peer.queued) >= self.bounds.queued_messages or size > self.bounds.queued_bytes

    def _by_queue(self) -> list[Peer]:
        """Return the peers for which something waits to be sent."""
        return [peer for peer in self._by_address.values() if peer.queued]

    def _check_total(self, more: int) -> None:
        """Close the connection with the most waiting bytes if there are too many in all.

        Args:
            more: bytes that may have been added. The sum is taken only now and then.
        """
        self._unchecked += more
        if self._unchecked < self.bounds.total_bytes // 16:
            return
        self._unchecked = 0
        total = sum(peer.waiting_bytes for peer in self._by_address.values())
        while total > self.bounds.total_bytes:
            most = max(self._by_address.values(), key=lambda peer: peer.waiting_bytes)
            total -= most.waiting_bytes
            self._close(most)

    def _close(self, peer: Peer) -> None:
        if self._by_address.pop(peer.address, None) is None:
            return
        descriptor = peer.socket.fileno()
        del self._by_descriptor[descriptor]
        self._epoll.unregister(descriptor)
        peer.socket.close()
        self.closed.append(peer.address)
