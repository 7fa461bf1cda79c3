"""The clock of idle timeouts. It pauses while the server cannot receive messages."""

from __future__ import annotations

from collections.abc import Callable

PAUSE_S = 2.0
"""Longest time between two calls of a service that runs, s. If more passes, the process was
stopped (SIGSTOP, a frozen container or virtual machine) and could receive no message."""


class IdleClock:
    """A clock that pauses while the server is busy or stopped.

    Args:
        clock: returns the wall-clock time, s.

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
        """Count a time in which the process was stopped as one in which it was busy.

        Args:
            wall_s: the wall-clock time, s.
        """
        gap_s = wall_s - self.busy_s - self._called_s
        self.busy_s += max(0.0, gap_s - PAUSE_S)
        self._called_s = wall_s - self.busy_s

    def note_work(self, began_s: float) -> None:
        """Count the time since `began_s`, a wall-clock time in s, as busy."""
        self.busy_s += self._clock() - began_s
