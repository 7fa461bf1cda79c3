"""A limit of the events that a session gets per second: replies wait."""

from __future__ import annotations

import time
from collections.abc import Callable

from hpcosim_server.service.pace import Pace

BURST_S = 1.0  # of the rate that a session may get at once


class EventRate(Pace):
    """A pace that depends on the number of events instead of the simulated time.

    Args:
        per_s: events per wall-clock second, > 0.
        events: returns the number of events of the session so far.
        clock: returns the wall-clock time, s.
    """

    def __init__(
        self,
        per_s: float,
        events: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(clock=clock)
        self.is_free = False
        self._per_s, self._events, self._began_s, self._wall_s = per_s, events, clock(), clock

    def wait_s(self, now_s: float) -> float:
        """See `Pace`."""
        due_s = self._began_s + self._events() / self._per_s - BURST_S
        return max(0.0, due_s - self._wall_s())

    def sent(self, now_s: float) -> None:
        """Let a session that was slow be no faster later."""
        earliest_s = self._wall_s() - self._events() / self._per_s
        self._began_s = max(self._began_s, earliest_s)
