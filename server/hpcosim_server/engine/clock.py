"""Simulated time: SimPy's event loop with absolute times, ranks and timers that can be cancelled.

This is the only module that uses private fields of SimPy's `Environment` (`_queue`, `_eid`,
`_now`) and `Event` (`_ok`, `_value`), for two reasons. SimPy schedules by delay, and
`now + (at - now)` may differ from `at` in the last bit. SimPy's public interface cannot cancel an
event. The module therefore pushes timers onto SimPy's heap by absolute time. `pyproject.toml` pins
the major version of SimPy.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Any, cast

import simpy
from simpy.core import Infinity

MIN_CANCELLED = 64
"""Number of cancelled timers that the heap may hold at any size."""


class Rank(IntEnum):
    """Order of the timers of one instant, lowest first."""

    COMPLETION = 0
    WALLTIME = 1  # after COMPLETION: a job that finishes at its requested time is completed
    POWER = 2
    NODE = 3  # failures, drains and repairs of nodes: after jobs that end at this instant
    SIGNAL = 4
    SUBMISSION = 5
    ACTION = 6  # actions on jobs: after the submission of their job
    ELIGIBLE = 7
    ALARM = 8


class Timer(simpy.Event):
    """An event at a fixed time that calls one function with itself as the argument.

    Attributes:
        at_s: simulation time at which it goes off, s.
        subject: context for the function, such as a job.
        cancelled: whether it was cancelled; a cancelled timer never goes off.
    """

    # Class attributes: the state of a triggered event, which simpy.Timeout sets on each instance.
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
    """A SimPy environment whose timers have absolute times.

    Timers of equal time and rank go off in the order in which they were set (SimPy's counter
    `_eid`).

    Args:
        start_s: initial simulation time, s.
    """

    # SimPy's property, without the call of a Python function.
    now = cast("float", property(attrgetter("_now")))

    def __init__(self, start_s: float) -> None:
        super().__init__(start_s)
        self._cancelled = 0
        self._heap = cast("list[tuple[float, int, int, Timer]]", self._queue)

    def __len__(self) -> int:
        """Return the number of timers on the heap, including cancelled ones."""
        return len(self._heap)

    def at(self, time_s: float, rank: Rank, call: Callable[[Timer], None], subject: Any) -> Timer:
        """Set a timer.

        Args:
            time_s: simulation time at which it goes off, s; at least now.
            rank: order among the timers of the same instant.
            call: called with the timer when it goes off.
            subject: `Timer.subject`.
        """
        timer = Timer(self, time_s, call, subject)
        heappush(self._heap, (time_s, rank, next(self._eid), timer))
        return timer

    def cancel(self, timer: Timer) -> None:
        """Cancel a timer.

        The heap drops its cancelled timers when they are more than half of it plus
        `MIN_CANCELLED`.
        """
        timer.cancelled = True
        self._cancelled += 1
        if self._cancelled > len(self._heap) // 2 + MIN_CANCELLED:
            self._heap[:] = [entry for entry in self._heap if not entry[3].cancelled]
            heapify(self._heap)
            self._cancelled = 0

    def next_s(self) -> float:
        """Return the time of the next timer, s; infinity if none is set."""
        heap = self._heap
        while heap and heap[0][3].cancelled:
            heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else Infinity

    def finish_instant(self) -> None:
        """Run every timer that is due now, including timers that these set for now."""
        self._run_due(self._now)

    def run_instant(self) -> bool:
        """Advance to the next instant and run all its timers; return False if none is set."""
        at_s = self.next_s()
        if at_s == Infinity:
            return False
        self._run_due(at_s)
        return True

    def advance_to(self, time_s: float) -> None:
        """Set the time to `time_s`. No timer is due before it."""
        self._now = time_s

    def _run_due(self, time_s: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= time_s:
            at_s, _, _, timer = heappop(heap)
            if timer.cancelled:
                self._cancelled -= 1
                continue
            # `step` of SimPy for an event that cannot fail and has one callback.
            self._now = at_s
            (call,), timer.callbacks = timer.callbacks, None
            call(timer)
