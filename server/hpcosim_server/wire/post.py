"""One wait for all descriptors of a process, and packets with connections to another one."""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

INLINE_BYTES = 2**16
"""Longer data travels as a file in memory: the kernel bounds the bytes that wait in a socket."""
MOST_WAITING = 4096
"""Connections that wait for a process that is busy; further ones are closed."""
IN_PACKET, IN_FILE = b"\0", b"\1"
MOST_DESCRIPTORS = 2

READABLE, WRITABLE = select.EPOLLIN, select.EPOLLOUT
GONE = select.EPOLLRDHUP

OnEvents = Callable[[int], None]
"""Handles the events of a descriptor, a sum such as `READABLE | WRITABLE`."""


class Packet(NamedTuple):
    """A packet."""

    data: bytes
    connection: socket.socket | None


class Post:
    """One end of a local connection that keeps the bounds of packets (SOCK_SEQPACKET)."""

    def __init__(self, end: socket.socket, poller: Poller, hear: Callable[[Post], object]) -> None:
        self.sent = self.received = 0
        self.is_closed = False
        self._socket = end
        self._poller = poller
        self._hear = hear
        self._queued: deque[tuple[bytes, list[int]]] = deque()
        end.setblocking(False)
        poller.watch(end.fileno(), self._on_events)

    def send(self, data: bytes, connection: socket.socket | None = None) -> bool:
        """Send a packet, without waiting for the other end.

        Returns:
            Whether it is sent or queued. Otherwise the other end is gone, or too many connections
            wait for it.
        """
        descriptors = [] if connection is None else [connection.detach()]
        if self.is_closed or (descriptors and len(self._queued) >= MOST_WAITING):
            _close_all(descriptors)
            return False
        self.sent += 1
        packet = IN_PACKET + data
        if len(data) > INLINE_BYTES:
            packet = IN_FILE
            descriptors.append(_file_of(data))
        self._queued.append((packet, descriptors))
        if len(self._queued) == 1:
            self._send_queued()
            self._watch()
        return not self.is_closed

    def receive(self) -> Packet | None:
        """Return the next packet; None: none has arrived, or the other end is gone."""
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        try:
            packet, descriptors, _, _ = socket.recv_fds(
                self._socket, 1 + INLINE_BYTES, MOST_DESCRIPTORS, flags
            )
        except BlockingIOError:
            return None
        except OSError:
            packet, descriptors = b"", []
        if not packet:
            self.is_closed = True
            return None
        self.received += 1
        data = packet[1:]
        if packet[:1] == IN_FILE:
            data = _taken(descriptors.pop()) if descriptors else b""
        if not descriptors or not data:  # the kernel leaves out those for which there is no room
            _close_all(descriptors)
            return Packet(data, None)
        return Packet(data, socket.socket(fileno=descriptors[0]))

    def flush(self, timeout_s: float) -> None:
        """Send what is queued, for at most a time."""
        until_s = time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLOUT)
        while self._queued and not self.is_closed and time.monotonic() < until_s:
            poll.poll(max(0.0, 1000 * (until_s - time.monotonic())))
            self._send_queued()

    def close(self) -> None:
        """Close this end, and the connections that wait for the other one."""
        if self._socket.fileno() < 0:
            return
        self.is_closed = True
        while self._queued:
            _close_all(self._queued.popleft()[1])
        self._poller.forget(self._socket.fileno())
        self._socket.close()

    def _on_events(self, events: int) -> None:
        if events & WRITABLE:
            self._send_queued()
            self._watch()
        if events & ~WRITABLE:
            self._hear(self)

    def _watch(self) -> None:
        events = READABLE | (WRITABLE if self._queued else 0)
        self._poller.change(self._socket.fileno(), events)

    def _send_queued(self) -> None:
        while self._queued:
            packet, descriptors = self._queued[0]
            try:
                socket.send_fds(self._socket, [packet], descriptors, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.ETOOMANYREFS and descriptors:  # the client comes again
                    self._queued[0] = packet, []
                    _close_all(descriptors)
                    continue
                self.is_closed = True
                return
            self._queued.popleft()
            _close_all(descriptors)


def _file_of(data: bytes) -> int:
    """Return the descriptor of a file in memory."""
    descriptor = os.memfd_create("packet")
    with open(descriptor, "wb", buffering=0, closefd=False) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
    return descriptor


def _taken(descriptor: int) -> bytes:
    """Return the bytes of a file in memory, and close it."""
    with open(descriptor, "rb", buffering=0) as file:
        file.seek(0)
        return file.read()


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class Poller:
    """Waits for descriptors. Events repeat until they are handled."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, OnEvents] = {}

    def watch(self, descriptor: int, handle: OnEvents, events: int = READABLE) -> None:
        """Call a function at the events of a descriptor, from now on.

        The function may be called without an event once after the descriptor is opened: the one
        with its number before it may have had the event.
        """
        self._epoll.register(descriptor, events)
        self._handlers[descriptor] = handle

    def change(self, descriptor: int, events: int) -> None:
        """Wait for other events of a descriptor. Its end is always an event."""
        self._epoll.modify(descriptor, events)

    def forget(self, descriptor: int) -> None:
        """Wait for a descriptor no more. It must still be open."""
        del self._handlers[descriptor]
        self._epoll.unregister(descriptor)

    def wait(self, timeout_s: float) -> None:
        """Wait for events and handle them."""
        try:
            found = self._epoll.poll(timeout_s)
        except InterruptedError:
            return
        for descriptor, events in found:
            handle = self._handlers.get(descriptor)
            if handle is not None:
                handle(events)

    def close(self) -> None:
        """Close the descriptor of the poller itself."""
        self._epoll.close()
