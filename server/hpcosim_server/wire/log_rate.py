"""A bound on the lines that a peer can make a server log."""

from __future__ import annotations

import time
from collections.abc import Callable


class LogRate:
    """A token bucket: a burst of lines, then a number of lines a second.

    Args:
        per_s: lines per wall-clock second, > 0.
        burst: lines that may follow each other at once, >= 1.
        clock: returns the wall-clock time, s.

    Attributes:
        left_out: number of lines left out since the last admitted one.
    """

    def __init__(
        self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._tokens = float(burst)
        self._at_s = clock()
        self.left_out = 0

    def admits(self) -> bool:
        """Return whether a line may be logged now."""
        now_s = self._clock()
        self._tokens = min(self._burst, self._tokens + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._tokens < 1.0:
            self.left_out += 1
            return False
        self._tokens -= 1.0
        return True

    def take_left_out(self) -> int:
        """Return the number of lines left out since the last call."""
        left_out, self.left_out = self.left_out, 0
        return left_out
