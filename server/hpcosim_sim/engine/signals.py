"""Signals: numbers that change over time independently of the simulation, with forecasts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hpcosim_protocol import MAX_FORECAST, Event, SignalChanged
from hpcosim_sim.engine.clock import Clock, Rank, Timer
from hpcosim_workloads.series import Series

MAX_SIGNAL_EVENTS = 1_000_000
"""Limit of events of signals in a simulation. It bounds the work for one request: a periodic signal
has changes up to any alarm."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal that the engine reports to the scheduler.

    Attributes:
        forecast_s: horizon: a change is part of the forecast from this time before it, s; 0: there
            is no forecast.
        forecast: the forecast, a series with the same times as `series`; None: it is perfect.
    """

    name: str
    series: Series
    forecast_s: float = 0.0
    forecast: Series | None = None


class Signals:
    """Reports the signals of a simulation.

    Each signal has at most one timer on the clock, for its next event. After `MAX_SIGNAL_EVENTS`
    events the signals keep their values.

    Args:
        emit: called with a `SignalChanged` event for each signal now, and at each later event.
    """

    def __init__(
        self, clock: Clock, emit: Callable[[SignalChanged], None], signals: Iterable[Signal]
    ) -> None:
        self._clock = clock
        self._emit = emit
        self._upcoming = {signal.name: _Upcoming(signal, clock.now) for signal in signals}
        self._last: dict[str, SignalChanged] = {}
        self.count = 0
        for name in self._upcoming:
            self._report(name)

    def __bool__(self) -> bool:
        """Whether there is a signal."""
        return bool(self._upcoming)

    def last_events(self) -> list[Event]:
        """Return the last event of each signal."""
        return list(self._last.values())

    def _report(self, name: str) -> None:
        now_s, upcoming = self._clock.now, self._upcoming[name]
        upcoming.pass_to(now_s)
        signal = upcoming.signal
        event = SignalChanged(now_s, name, signal.series.at(now_s), upcoming.forecast())
        self._last[name] = event
        self.count += 1
        self._emit(event)
        next_s = upcoming.next_s()
        if next_s < math.inf and self.count < MAX_SIGNAL_EVENTS:
            self._clock.at(next_s, Rank.SIGNAL, self._on_change, name)

    def _on_change(self, timer: Timer) -> None:
        self._report(timer.subject)


class _Upcoming:
    """The changes of a signal after the present.

    `_changes[_first:_last]` are upcoming and part of the forecast.
    """

    def __init__(self, signal: Signal, start_s: float) -> None:
        self.signal = signal
        self._changes: list[tuple[float, float]] = []
        self._first = self._last = 0
        self._loaded_to_s = start_s
        # Only a series with several values changes.
        self._has_more = len(signal.series.values) > 1

    def pass_to(self, now_s: float) -> None:
        """Remove the changes up to `now_s`, and add those within the horizon to the forecast."""
        while self._has(self._first) and self._changes[self._first][0] <= now_s:
            self._first += 1
        self._last = max(self._last, self._first)
        while (
            self._last - self._first < MAX_FORECAST
            and self._has(self._last)
            and self._announced_s() <= now_s
        ):
            self._last += 1

    def forecast(self) -> list[tuple[float, float]]:
        """Return the time, s, and value of each change in the forecast."""
        return self._changes[self._first : self._last]

    def next_s(self) -> float:
        """Return the time of the next event, s; infinity: there is none."""
        next_s = self._changes[self._first][0] if self._has(self._first) else math.inf
        if self._last - self._first < MAX_FORECAST and self._has(self._last):
            next_s = min(next_s, self._announced_s())
        return next_s

    def _announced_s(self) -> float:
        return self._changes[self._last][0] - self.signal.forecast_s

    def _has(self, place: int) -> bool:
        """Return whether there is a change at a place of `_changes`, after loading it."""
        missing = place - len(self._changes)
        while missing >= 0 and self._has_more:
            missing -= self._load()
        return missing < 0

    def _load(self) -> int:
        """Append the changes of the next period; of a series without a period, all changes."""
        series, begin_s = self.signal.series, self._loaded_to_s
        end_s = begin_s + (series.repeat_s or math.inf)
        # `Series.changes` excludes its begin, which belongs to this period.
        after_s = math.nextafter(begin_s, -math.inf)
        del self._changes[: self._first]  # the past
        self._first, self._last = 0, self._last - self._first
        changes = (self.signal.forecast or series).changes(after_s, end_s)
        self._changes += changes
        self._loaded_to_s, self._has_more = end_s, series.repeat_s is not None
        return len(changes)
