"""Simulated time: SimPy's event loop with absolute times, ranks and timers that can be cancelled.

This is the only module that uses private fields of SimPy's `Environment` (`_queue`, `_eid`,
`_now`), for two reasons. SimPy schedules by delay, and `now + (at - now)` may differ from `at` in
the last bit. SimPy's public interface cannot cancel an event. The module therefore pushes timers
onto SimPy's heap by absolute time, and `Clock.step` runs them. `pyproject.toml` pins the major
version of SimPy.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Any, Final, cast

import simpy
from msgspec import Struct
from simpy.core import Infinity

MIN_CANCELLED = 64
"""Number of cancelled timers that the heap may hold at any size."""


class Rank:
    """Order of the timers of one instant, lowest first.

    The ranks are plain integers: Python 3.11 needs 0.3 us to read a member of an `IntEnum`.
    """

    COMPLETION: Final = 0
    WALLTIME: Final = 1  # after COMPLETION: a job that ends at its requested time is completed
    POWER: Final = 2
    NODE: Final = 3  # failures, drains and repairs of nodes: after jobs that end at this instant
    SIGNAL: Final = 4
    SUBMISSION: Final = 5
    ACTION: Final = 6  # actions on jobs: after the submission of their job
    ELIGIBLE: Final = 7
    ALARM: Final = 8


class Timer(Struct, eq=False):
    """An event at a fixed time that calls one function with itself as the argument.

    It lies on SimPy's heap in the place of a `simpy.Event`, whose list of callbacks it lacks.

    Attributes:
        at_s: simulation time at which it goes off, s.
        call: the function; None: the timer has gone off or was cancelled.
        subject: context for the function, such as a job.
    """

    at_s: float
    call: Callable[[Timer], None] | None
    subject: Any


class Clock(simpy.Environment):
    """A SimPy environment whose timers have absolute times.

    Timers of equal time and rank go off in the order in which they were set (SimPy's counter
    `_eid`).
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

    def at(self, time_s: float, rank: int, call: Callable[[Timer], None], subject: Any) -> Timer:
        """Set a timer.

        Args:
            time_s: simulation time at which it goes off, s; at least now.
        """
        timer = Timer(time_s, call, subject)
        heappush(self._heap, (time_s, rank, next(self._eid), timer))
        return timer

    def cancel(self, timer: Timer) -> None:
        """Cancel a timer that has not gone off.

        The heap drops its cancelled timers when they are more than half of it plus
        `MIN_CANCELLED`.
        """
        timer.call = None
        self._cancelled += 1
        if self._cancelled > len(self._heap) // 2 + MIN_CANCELLED:
            self._heap[:] = [entry for entry in self._heap if entry[3].call is not None]
            heapify(self._heap)
            self._cancelled = 0

    def next_s(self) -> float:
        """Return the time of the next timer, s; infinity if none is set."""
        heap = self._heap
        while heap and heap[0][3].call is None:
            heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else Infinity

    def finish_instant(self) -> None:
        """Run every timer that is due now, including timers that these set for now."""
        heap, now_s = self._heap, self._now
        while heap and heap[0][0] <= now_s:
            self.run_instant()

    def run_instant(self) -> bool:
        """Advance to the next instant and run all its timers; return False if none is set."""
        heap = self._heap
        if not heap or (heap[0][3].call is None and self.next_s() == Infinity):
            return False
        time_s = heap[0][0]
        while heap and heap[0][0] <= time_s:
            self._now, _, _, timer = heappop(heap)
            call = timer.call
            if call is None:
                self._cancelled -= 1
                continue
            timer.call = None
            call(timer)
        return True

    def step(self) -> None:
        """Advance to the next timer and run it. A timer is set."""
        self.next_s()
        self._now, _, _, timer = heappop(self._heap)
        call, timer.call = timer.call, None
        assert call is not None  # `next_s` has removed the cancelled timers
        call(timer)

    def advance_to(self, time_s: float) -> None:
        """Set the time to `time_s`. No timer is due before it."""
        self._now = time_s
