"""Sessions in real time: simulated time follows the wall clock, and decisions take time."""

from __future__ import annotations

import time
from collections.abc import Callable

from hpcosim_server.service.pace import Pace
from hpcosim_workloads.table import MAX_TIME_S

WHY_FIXED = "the session runs in real time (--realtime), so its pace cannot be changed"


class RealTime(Pace):
    """The pace of a session in real time: 1 s of wall-clock time is `factor` s of simulated time.

    Two things follow the wall clock. A reply is sent when its simulated time has come. The time
    from a reply to the next request, in which the scheduler decides, passes in the simulation
    before the decisions are executed, as `elapsed_s` of the protocol does.

    The clock starts with the first request, and after a restart of the server with the next one.
    Time that the server needs does not count: a late reply starts the clock anew at its simulated
    time.

    Args:
        factor: simulated seconds per wall-clock second, > 0.
        now_s: simulated time at the start, s.
        clock: returns the wall-clock time, s.
    """

    fixed = WHY_FIXED

    def __init__(
        self, factor: float, now_s: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(factor, now_s, clock)
        self._factor = factor
        self._has_started = False

    def elapsed_s(self) -> float:
        """Return the simulated time since the last reply, s; call it when a request arrives."""
        with self._lock:
            at_s = self._clock()
            if not self._has_started:
                self._has_started, self._at_s = True, at_s
            return min(MAX_TIME_S, max(0.0, at_s - self._at_s) * self._factor)

    def sent(self, now_s: float) -> None:
        """Start the clock anew at a reply.

        Args:
            now_s: simulated time of the reply, s.
        """
        with self._lock:
            self._now_s, self._at_s = now_s, self._clock()

    def change_speed(self, speed: float | None) -> None:
        """Refuse to change the speed.

        Raises:
            ValueError: always.
        """
        raise ValueError(WHY_FIXED)

    def pause(self) -> None:
        """Refuse to pause, and so to step.

        Raises:
            ValueError: always.
        """
        raise ValueError(WHY_FIXED)
