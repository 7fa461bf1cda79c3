"""Signals: numbers that change over time independently of the simulation, with forecasts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol import MAX_FORECAST, Event, SignalChanged
from hpcosim_server.engine.clock import Clock, Rank, Timer
from hpcosim_workloads.series import Series


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal that the engine reports to the scheduler.

    Attributes:
        name: name of the signal, such as `power_cap_w`.
        series: its value over time.
        forecast_s: horizon: a change is part of the forecast from this time before it, s; 0: there
            is no forecast.
        forecast_values: float64[changes], the forecast of `series.values`.
    """

    name: str
    series: Series
    forecast_s: float
    forecast_values: NDArray[np.float64]


class Signals:
    """Reports the signals of a simulation.

    Each signal has at most one timer on the clock, for its next event.

    Args:
        clock: clock of the simulation, at its start.
        emit: called with a `SignalChanged` event for each signal now, and at each later event.
        signals: the signals.
    """

    def __init__(
        self, clock: Clock, emit: Callable[[Event], None], signals: Iterable[Signal]
    ) -> None:
        self._clock = clock
        self._emit = emit
        self._reporters = {signal.name: _Reporter(signal) for signal in signals}
        self._last: dict[str, SignalChanged] = {}
        for name in self._reporters:
            self._report(name)

    def __bool__(self) -> bool:
        """Whether there is a signal."""
        return bool(self._reporters)

    def last_events(self) -> list[Event]:
        """Return the last event of each signal."""
        return list(self._last.values())

    def _report(self, name: str) -> None:
        now_s, reporter = self._clock.now, self._reporters[name]
        event = self._last[name] = reporter.event_at(now_s)
        self._emit(event)
        next_s = reporter.next_s(now_s)
        if next_s is not None:
            self._clock.at(next_s, Rank.SIGNAL, self._on_change, name)

    def _on_change(self, timer: Timer) -> None:
        self._report(timer.subject)


class _Reporter:
    """The events of one signal."""

    def __init__(self, signal: Signal) -> None:
        times_s = signal.series.times_s
        self._signal = signal
        # The first value also holds before `times_s[0]`, which therefore is no change.
        self._changes_s = times_s[1:]
        self._announced_s = self._changes_s - signal.forecast_s
        both_s = [self._changes_s] + ([self._announced_s] if signal.forecast_s else [])
        self._events_s = np.unique(np.concatenate(both_s))
        values = signal.forecast_values[1:].tolist()
        self._forecast = list(zip(self._changes_s.tolist(), values, strict=True))

    def event_at(self, now_s: float) -> SignalChanged:
        """Return the event of a time, s."""
        first = int(np.searchsorted(self._changes_s, now_s, side="right"))
        last = int(np.searchsorted(self._announced_s, now_s, side="right"))
        forecast = self._forecast[first : min(last, first + MAX_FORECAST)]
        signal = self._signal
        return SignalChanged(now_s, signal.name, signal.series.at(now_s), forecast)

    def next_s(self, now_s: float) -> float | None:
        """Return the time of the next event after a time, s; None: there is none."""
        place = int(np.searchsorted(self._events_s, now_s, side="right"))
        return float(self._events_s[place]) if place < len(self._events_s) else None
