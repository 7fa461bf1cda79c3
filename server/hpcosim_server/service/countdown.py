"""How many sessions a server still opens, and the clock of idle timeouts."""

from __future__ import annotations

import os
import select
import weakref
from collections.abc import Callable

PAUSE_S = 2.0
"""Longest time between two calls of a service that runs, s. If more passes, the process was
stopped (SIGSTOP, a frozen container or virtual machine) and could receive no message."""


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


class IdleClock:
    """A clock that pauses while the server is busy or stopped.

    Attributes:
        busy_s: time in which the server could receive no message, s.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.busy_s = 0.0
        self._clock = clock
        self._called_s = clock()  # on this clock

    def now_s(self) -> float:
        """Return the time of this clock, s."""
        return self._clock() - self.busy_s

    def note_pause(self, wall_s: float) -> None:
        """Count a time in which the process was stopped as one in which it was busy."""
        gap_s = wall_s - self.busy_s - self._called_s
        self.busy_s += max(0.0, gap_s - PAUSE_S)
        self._called_s = wall_s - self.busy_s

    def note_work(self, began_s: float) -> None:
        """Count the time since `began_s`, a wall-clock time in s, as busy."""
        self.busy_s += self._clock() - began_s
