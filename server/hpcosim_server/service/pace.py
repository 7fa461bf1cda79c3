"""The pace of a session: how long a reply waits, for viewers, in real time, or by a rate."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from hpcosim_workloads.table import MAX_TIME_S

Speed = float | Literal["auto"] | None
"""Simulated seconds per wall-clock second; None: as fast as possible; `auto`: see `speed_for`."""

AUTO_WALL_S = 60.0
"""Wall time in which `auto` shows the submissions and the longest job after them, s."""
CATCH_UP_S = 0.25
"""Largest delay of the scheduler that later replies make up for, wall-clock s."""
MAX_STEPS = 1000
MIN_SPEED, MAX_SPEED = 1e-6, 1e12

BURST_S = 1.0  # of the rate that a session may get at once

WHY_FIXED = "the session runs in real time (realtime), so its pace cannot be changed"


class PaceState(NamedTuple):
    """The settings of a pace."""

    speed: float | None
    paused: bool


class Pace:
    """Says how long replies must be held back. Any thread may call its methods.

    The clock of the pace advances `speed` simulated seconds a wall-clock second. A reply is due
    when that clock reaches the reply's simulated time. If the scheduler is late by more than
    `CATCH_UP_S`, the clock waits for it.

    Attributes:
        is_free: whether no reply waits, so that `wait_s` and `sent` need not be called.
        fixed: why its settings cannot change; empty: they can.
    """

    fixed = ""

    def __init__(
        self,
        speed: float | None = None,
        now_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._speed = speed
        self._paused = False
        self._steps = 0
        self._now_s, self._at_s = now_s, clock()  # simulated time at this wall-clock time
        self._is_anchored = True  # false: they are those of the next reply
        self.is_free = speed is None

    @property
    def state(self) -> PaceState:
        """The current settings."""
        return PaceState(self._speed, self._paused)

    def wait_s(self, now_s: float) -> float:
        """Return how long to hold back a reply, wall-clock s; infinity: until a control changes."""
        with self._lock:
            if self._paused:
                return 0.0 if self._steps else math.inf
            if not self._is_anchored:
                self._is_anchored = True
                self._now_s, self._at_s = now_s, self._clock()
            return max(0.0, self._due_s(now_s) - self._clock())

    def sent(self, now_s: float) -> None:
        """Record that a reply was sent."""
        with self._lock:
            at_s = self._clock()
            if self._paused:
                self._steps = max(0, self._steps - 1)
            else:
                at_s = max(self._due_s(now_s), at_s - CATCH_UP_S)
            self._now_s, self._at_s, self._is_anchored = now_s, at_s, True

    def change_speed(self, speed: float | None) -> None:
        """Set the speed from now on; None: as fast as possible."""
        if speed is not None and not MIN_SPEED <= speed <= MAX_SPEED:
            raise ValueError(f"expected a speed from {MIN_SPEED:g} to {MAX_SPEED:g}, got {speed}")
        with self._lock:
            self._settle()
            self._speed = speed
            self._note_freedom()

    def pause(self) -> None:
        """Hold back all replies from now on."""
        with self._lock:
            self._settle()
            self._paused = True
            self._note_freedom()

    def resume(self) -> None:
        """Continue after `pause`."""
        with self._lock:
            if self._paused:
                self._paused, self._steps = False, 0
                self._at_s = self._clock()
                self._note_freedom()

    def step(self, batches: int = 1) -> None:
        """Pause, but send this number of replies immediately."""
        if not 1 <= batches <= MAX_STEPS:
            raise ValueError(f"expected from 1 to {MAX_STEPS} steps, got {batches}")
        self.pause()
        with self._lock:
            self._steps = min(MAX_STEPS, self._steps + batches)

    def _note_freedom(self) -> None:
        self._is_anchored = self._is_anchored and not self.is_free
        self.is_free = self._speed is None and not self._paused

    def _due_s(self, now_s: float) -> float:
        if self._speed is None:
            return self._at_s
        return self._at_s + (now_s - self._now_s) / self._speed

    def _settle(self) -> None:
        """Advance the clock of the pace to now, before its speed changes."""
        if not self._paused:
            at_s = self._clock()
            self._now_s += max(0.0, at_s - self._at_s) * (self._speed or 0.0)
            self._at_s = max(self._at_s, at_s)


def speed_for(speed: Speed, span_s: float) -> float | None:
    """Return the speed of a session.

    Args:
        speed: the requested speed. `auto` shows `span_s` in `AUTO_WALL_S`.
        span_s: simulated time from the start to the end of the last job if no job waited, s.
    """
    if speed == "auto":
        return max(1.0, span_s / AUTO_WALL_S)
    return speed


class EventRate(Pace):
    """A pace that depends on the number of events instead of the simulated time."""

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


class RealTime(Pace):
    """The pace of a session in real time: 1 s of wall-clock time is `factor` s of simulated time.

    Two things follow the wall clock. A reply is sent when its simulated time has come. The time
    from a reply to the next request, in which the scheduler decides, passes in the simulation
    before the decisions are executed, as `elapsed_s` of the protocol does.

    The clock starts with the first request, and after a restart of the server with the next one.
    Time that the server needs does not count: a late reply starts the clock anew at its simulated
    time.
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
        """Start the clock anew at a reply."""
        with self._lock:
            self._now_s, self._at_s = now_s, self._clock()

    def change_speed(self, speed: float | None) -> None:
        """Refuse to change the speed."""
        raise ValueError(WHY_FIXED)

    def pause(self) -> None:
        """Refuse to pause, and so to step."""
        raise ValueError(WHY_FIXED)
