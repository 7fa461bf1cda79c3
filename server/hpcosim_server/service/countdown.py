"""How many sessions a server still opens, counted by all its processes together."""

from __future__ import annotations

import os
import select
import weakref


class Countdown:
    """A number that processes take from, one at a time; forked processes share it.

    The kernel keeps the number (eventfd), so a process that is killed leaves no lock behind.

    Args:
        number: where it starts, >= 0; None: it never ends.
    """

    def __init__(self, number: int | None) -> None:
        self._descriptor: int | None = None
        if number is None:
            return
        flags = os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC
        self._descriptor = os.eventfd(number, flags)
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)
        weakref.finalize(self, os.close, self._descriptor)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self._descriptor is not None and not self._poll.poll(0)

    def take(self) -> bool:
        """Take one; return whether one was left."""
        if self._descriptor is None:
            return True
        try:
            os.eventfd_read(self._descriptor)
        except BlockingIOError:
            return False
        return True

    def put_back(self) -> None:
        """Put back one that was taken."""
        if self._descriptor is not None:
            os.eventfd_write(self._descriptor, 1)
