"""Simulated time: SimPy's event loop with exact instants, stated ties and timers to cancel.

This is the only file that uses private fields of SimPy's `Environment` (`_queue`, `_eid`, `_now`)
and `Event` (`_ok`, `_value`). SimPy schedules by delay, and `now + (at - now)` need
not be `at`: a submission time would lose its last bit. Its public interface also has no way to
cancel an event. So timers go on SimPy's own heap by their time. `pyproject.toml` pins SimPy to the
major version whose fields these are.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import Any, cast

import simpy
from simpy.core import Infinity

FEW = 64  # cancelled timers not worth clearing away


class Rank(IntEnum):
    """The order of events of one instant."""

    COMPLETION = 0
    WALLTIME = 1  # a job that ends at its limit has completed
    POWER = 2
    SUBMISSION = 3
    ALARM = 4


class Timer(simpy.Event):
    """An event that comes at a known time and calls one function with itself.

    Attributes:
        at_s: when it goes off, s.
        subject: what it is about, for the function.
        cancelled: whether it was cancelled; it then never goes off.
    """

    # The state of a triggered event, as simpy.Timeout sets it for each.
    _ok = True
    _value = None
    cancelled = False

    def __init__(
        self, env: Clock, at_s: float, call: Callable[[Timer], None], subject: Any
    ) -> None:
        self.env = env
        self.callbacks: Any = [call]
        self.at_s = at_s
        self.subject = subject


class Clock(simpy.Environment):
    """A SimPy environment whose timers are set by absolute time.

    Timers of equal time and rank go off in the order they were set: SimPy's own counter (`_eid`)
    numbers them.

    Args:
        start_s: the time at which it starts, s.
    """

    def __init__(self, start_s: float) -> None:
        super().__init__(start_s)
        self._cancelled = 0
        self._heap = cast("list[tuple[float, int, int, Timer]]", self._queue)

    def __len__(self) -> int:
        """Return how many timers are on the heap, with cancelled ones that are still there."""
        return len(self._heap)

    def at(self, time_s: float, rank: Rank, call: Callable[[Timer], None], subject: Any) -> Timer:
        """Set a timer that calls `call(timer)` at `time_s`, which is not in the past."""
        timer = Timer(self, time_s, call, subject)
        heappush(self._heap, (time_s, rank, next(self._eid), timer))
        return timer

    def cancel(self, timer: Timer) -> None:
        """Cancel a timer; cancelled timers leave the heap once they are most of it."""
        timer.cancelled = True
        self._cancelled += 1
        if self._cancelled > len(self._heap) // 2 + FEW:
            self._heap[:] = [entry for entry in self._heap if not entry[3].cancelled]
            heapify(self._heap)
            self._cancelled = 0

    def next_s(self) -> float:
        """Return when the next timer goes off, s; infinity: there is none."""
        heap = self._heap
        while heap and heap[0][3].cancelled:
            heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else Infinity

    def finish_instant(self) -> None:
        """Let every timer that is due now go off, those set for now meanwhile included."""
        self._run_due(self._now)

    def run_instant(self) -> bool:
        """Let every timer of the next instant go off; return False if there is none."""
        at_s = self.next_s()
        if at_s == Infinity:
            return False
        self._run_due(at_s)
        return True

    def pass_to(self, time_s: float) -> None:
        """Let time pass to `time_s`, before which no timer goes off."""
        self._now = time_s

    def _run_due(self, time_s: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= time_s:
            if heap[0][3].cancelled:
                heappop(heap)
                self._cancelled -= 1
            else:
                self.step()
