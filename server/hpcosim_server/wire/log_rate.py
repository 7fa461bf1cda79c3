"""A bound on the lines that peers can make a server log."""

from __future__ import annotations

import time
from collections.abc import Callable

from hpcosim_server.wire.shared_numbers import SharedNumbers

TOKENS, AT_S = 0, 1  # places in the bucket


class LogRate:
    """A token bucket: a burst of lines, then a number of lines a second.

    Processes that are forked later share it.

    Args:
        per_s: lines per wall-clock second, > 0.
        burst: lines that may follow each other at once, >= 1.
        clock: returns the wall-clock time, s; in all processes the same.

    Attributes:
        left_out: number of lines that this process left out since the last admitted one.
    """

    def __init__(
        self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._bucket = SharedNumbers("d", 2)
        self._bucket[TOKENS], self._bucket[AT_S] = float(burst), clock()
        self.left_out = 0

    def admits(self) -> bool:
        """Return whether a line may be logged now."""
        with self._bucket as bucket:
            now_s = self._clock()
            more = (now_s - bucket[AT_S]) * self._per_s
            tokens = min(self._burst, bucket[TOKENS] + more)
            admitted = tokens >= 1.0
            bucket[TOKENS], bucket[AT_S] = tokens - admitted, now_s
        self.left_out += not admitted
        return admitted

    def take_left_out(self) -> int:
        """Return the number of lines left out since the last call."""
        left_out, self.left_out = self.left_out, 0
        return left_out
