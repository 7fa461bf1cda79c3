"""Simulated time: SimPy's event loop with exact instants, stated ties and timers to call off."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import Any, cast

import simpy
from simpy.core import Infinity

FEW = 64  # cancelled timers not worth clearing away


class Rank(IntEnum):
    """What comes first among events of one instant."""

    COMPLETION = 0
    WALLTIME = 1  # a job that ends at its limit has completed
    POWER = 2
    SUBMISSION = 3
    ALARM = 4


class Timer(simpy.Event):
    """An event that comes at a known time and calls one function with itself.

    Attributes:
        at_s: when it goes off.
        subject: what it is about.
        cancelled: it is to be forgotten.
    """

    def __init__(
        self, env: Clock, at_s: float, call: Callable[[Timer], None], subject: Any
    ) -> None:
        # The state of a triggered event, as simpy.Timeout sets it.
        self.env = env
        self._ok = True
        self._value = None
        self._defused = False
        self.callbacks: Any = [call]
        self.at_s = at_s
        self.subject = subject
        self.cancelled = False


class Clock(simpy.Environment):
    """A SimPy environment whose timers are set by absolute time.

    SimPy schedules by delay, and `now + (at - now)` need not be `at`; a submission time would
    lose its last bit. So timers go on the heap by their time, behind SimPy's own counter,
    which keeps events of equal time and rank in the order they were set.
    """

    def __init__(self, start_s: float) -> None:
        super().__init__(start_s)
        # SimPy's own heap, which here holds nothing but timers.
        self._cancelled = 0
        self._heap = cast("list[tuple[float, int, int, Timer]]", self._queue)

    def at(self, time_s: float, rank: Rank, call: Callable[[Timer], None], subject: Any) -> Timer:
        """Set a timer that calls `call(timer)` at `time_s`, not before now."""
        timer = Timer(self, time_s, call, subject)
        heappush(self._heap, (time_s, rank, next(self._eid), timer))
        return timer

    def cancel(self, timer: Timer) -> None:
        """Forget a timer; the heap is cleared of such when they are the most of it."""
        timer.cancelled = True
        self._cancelled += 1
        if self._cancelled > len(self._heap) // 2 + FEW:
            self._heap[:] = [entry for entry in self._heap if not entry[3].cancelled]
            heapify(self._heap)
            self._cancelled = 0

    def next_s(self) -> float:
        """Return when the next timer goes off, infinity if there is none."""
        heap = self._heap
        while heap:
            time_s, _, _, timer = heap[0]
            if not timer.cancelled:
                return time_s
            heappop(heap)
            self._cancelled -= 1
        return Infinity

    def pass_to(self, time_s: float) -> None:
        """Let time pass to `time_s` while nothing happens; no timer is due before it."""
        self._now = time_s
