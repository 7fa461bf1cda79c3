"""The signals section of a scenario: numbers over time that the scheduler is told."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from hpcosim_protocol.platform import Fraction, NotNegative
from hpcosim_server.engine.signals import Signal
from hpcosim_workloads.series import Series, constant, read_series

FORECASTS = 3  # separates the random stream of forecast errors from other draws of a seed
MOST_CHANGES = 10_000
SOURCES = ("value", "series", "changes")
Number = Annotated[float, Meta(ge=-1e15, le=1e15)]
Time = Annotated[float, Meta(ge=-1e15, le=1e15)]


class SignalSource(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A signal: its values over time, by one of `value`, `series` and `changes`, and its forecast.

    Times are those of the simulation. A window of the workload moves its jobs to time 0, but not
    the signals.

    Attributes:
        value: constant value.
        series: path of a CSV file with the columns `time_s` or `time`, and a value, relative to the
            scenario's folder. A value holds until the next row; the first one also before its time.
            Of a column `time` with dates, the first one is time 0.
        changes: the series itself, at most 10,000 pairs of a time, s, and the value from then on.
        forecast_s: horizon of the forecast, s: the scheduler knows a change from this time before
            it, but at most 1,000 changes at a time. 0: no forecast.
        forecast_error: standard deviation of the error of the forecast, as a fraction of the mean
            of the values. The error of each change is normal and drawn once from the seed (Wiesner
            et al. 2021, section 5.1.1, with 0.05). 0: the forecast is perfect.
    """

    value: Number | None = None
    series: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    changes: (
        Annotated[tuple[tuple[Time, Number], ...], Meta(min_length=1, max_length=MOST_CHANGES)]
        | None
    ) = None
    forecast_s: NotNegative = 0.0
    forecast_error: Fraction = 0.0

    def __post_init__(self) -> None:
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(f"expected one of {', '.join(SOURCES)}, got {found}")
        times_s = [at_s for at_s, _ in self.changes or ()]
        for before_s, after_s in pairwise(times_s):
            if after_s <= before_s:
                what = f"expected times in ascending order, got {after_s:g} after {before_s:g}"
                raise ValueError(f"changes: {what}")


class Signals(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The signals of a scenario. A signal that is null does not exist.

    Attributes:
        co2_g_per_kwh: carbon intensity of the electricity, g/kWh.
        price_per_kwh: price of the electricity, currency/kWh.
        power_cap_w: maximum power of all nodes together, W. The simulator does not enforce it.
    """

    co2_g_per_kwh: SignalSource | None = None
    price_per_kwh: SignalSource | None = None
    power_cap_w: SignalSource | None = None


FILES = tuple(f"signals.{name}.series" for name in Signals.__struct_fields__)
"""Paths of the files in the section."""


def signals_of(signals: Signals | None, folder: Path, seed: int) -> tuple[Signal, ...]:
    """Return the signals of a scenario, for the simulator.

    Args:
        signals: the section; None: there are no signals.
        folder: the folder of the scenario's file; relative paths start here.
        seed: seed of the scenario, for errors of forecasts.

    Raises:
        WorkloadError: a file cannot be read.
    """
    if signals is None:
        return ()
    named = [(name, getattr(signals, name)) for name in Signals.__struct_fields__]
    return tuple(
        _signal(name, source, folder, [seed, FORECASTS, place])
        for place, (name, source) in enumerate(named)
        if source is not None
    )


def draws_forecasts(signals: Signals | None) -> bool:
    """Return whether a forecast depends on the seed."""
    sources = [getattr(signals, name, None) for name in Signals.__struct_fields__]
    return any(source is not None and source.forecast_error > 0.0 for source in sources)


def _signal(name: str, source: SignalSource, folder: Path, seeds: Sequence[int]) -> Signal:
    series = _series(source, folder)
    forecast = series.values
    if source.forecast_error:
        deviation = source.forecast_error * abs(float(forecast.mean()))
        forecast = np.random.default_rng(seeds).normal(forecast, deviation)
    return Signal(name, series, source.forecast_s, forecast)


def _series(source: SignalSource, folder: Path) -> Series:
    if source.series is not None:
        return read_series(folder / source.series)
    if source.changes is not None:
        times_s, values = zip(*source.changes, strict=True)
        return Series(np.array(times_s, dtype=np.float64), np.array(values, dtype=np.float64))
    assert source.value is not None
    return constant(source.value)
