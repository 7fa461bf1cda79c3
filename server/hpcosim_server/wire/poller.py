"""One wait for all descriptors of a process: each that is ready has its function called."""

from __future__ import annotations

import select
from collections.abc import Callable

READABLE, WRITABLE = select.EPOLLIN, select.EPOLLOUT
GONE = select.EPOLLRDHUP
"""The other end will send no more."""

OnEvents = Callable[[int], None]
"""Handles the events of a descriptor, a sum such as `READABLE | WRITABLE`."""


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
