"""The signals section of a scenario: numbers over time that the scheduler is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from hpcosim_protocol.platform import Fraction, NotNegative
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.dates import seconds_to
from hpcosim_scenarios.model.economics import File, Period
from hpcosim_sim.engine.signals import Signal
from hpcosim_sim.record.economics import UNKNOWN, Rates
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.series import Quantity, Series, constant, read_series

FORECASTS = 3  # separates the random stream of forecast errors from other draws of a seed
MOST_CHANGES = 10_000
SOURCES = ("value", "series", "changes")
Number = Annotated[float, Meta(ge=-1e15, le=1e15)]
Time = Annotated[float, Meta(ge=-1e12, le=1e12)]
Changes = Annotated[tuple[tuple[Time, Number], ...], Meta(min_length=1, max_length=MOST_CHANGES)]
ECONOMIC: Mapping[str, str] = {
    "co2_g_per_kwh": "co2_g_per_kwh or series",
    "price_per_kwh": "price_per_kwh or tariff",
}
"""Keys of `economics` with the values of a signal."""
QUANTITIES: Mapping[str, Quantity] = {"co2_g_per_kwh": "co2", "price_per_kwh": "price"}
"""Quantities of signals, for the units in headers."""


class SignalSource(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A signal: its values over time, by one of `value`, `series` and `changes`, and its forecast.

    `co2_g_per_kwh` and `price_per_kwh` without any of the three are those of `economics`. Times are
    those of the simulation. A window of the workload moves its jobs to time 0, but not the signals.

    Attributes:
        value: constant value.
        series: path of a CSV file with the columns `time_s` or `time`, and a value, relative to the
            scenario's folder. A value holds until the next row; the first one also before its time.
            Of a column `time` with dates, the first one is time 0, or `economics.start` if it is
            set.
        changes: the series itself, at most 10,000 pairs of a time, s, and the value from then on.
        repeat_s: period of `series` or `changes`, s, such as 86400 for every day; the first time is
            then 0 or later, and the last is less than the period. Null: the last value holds for
            ever.
        forecast_s: horizon of the forecast, s: the scheduler knows a change from this time before
            it, but at most 1,000 changes at a time. 0: no forecast.
        forecast_error: standard deviation of the error of the forecast, as a fraction of the mean
            of the values. The error of each change is normal and drawn once from the seed. Wiesner
            et al. 2021, "Let's Wait Awhile", use 0.05. 0: the forecast is perfect.
    """

    value: Number | None = None
    series: File | None = None
    changes: Changes | None = None
    repeat_s: Period | None = None
    forecast_s: NotNegative = 0.0
    forecast_error: Fraction = 0.0

    def __post_init__(self) -> None:
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"expected one of {', '.join(SOURCES)}, got {' and '.join(given)}")
        if self.repeat_s is not None and given not in (["series"], ["changes"]):
            raise ValueError("repeat_s applies to series and changes; remove it")
        _check_times([at_s for at_s, _ in self.changes or ()], self.repeat_s)

    @property
    def has_values(self) -> bool:
        """Whether the values are stated here."""
        return any(getattr(self, name) is not None for name in SOURCES)


def _check_times(times_s: Sequence[float], repeat_s: float | None) -> None:
    """Check the times of a signal in a scenario.

    Raises:
        ValueError: they are not in ascending order, or outside the period.
    """
    for before_s, after_s in pairwise(times_s):
        if after_s <= before_s:
            what = f"expected times in ascending order, got {after_s:g} after {before_s:g}"
            raise ValueError(f"changes: {what}")
    if repeat_s is not None and times_s and not 0.0 <= times_s[0] <= times_s[-1] < repeat_s:
        what = f"expected times from 0 to less than repeat_s, {repeat_s:g}"
        raise ValueError(f"changes: {what}, got {times_s[0]:g} to {times_s[-1]:g}")


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


def signals_of(
    signals: Signals | None,
    folder: Path,
    seed: int,
    rates: Rates = UNKNOWN,
    start: str | None = None,
) -> tuple[Signal, ...]:
    """Return the signals of a scenario, for the simulator.

    Args:
        signals: the section; None: there are no signals.
        folder: the folder of the scenario's file; relative paths start here.
        seed: seed of the scenario, for errors of forecasts.
        rates: price and carbon intensity of `economics`, for signals without values.
        start: date of time 0, for files with dates; None: their first date.

    Raises:
        ScenarioError: a file cannot be read or is invalid, or a signal has no values. It has the
            field, not file and line of the scenario.
    """
    if signals is None:
        return ()
    named = [(name, getattr(signals, name)) for name in Signals.__struct_fields__]
    return tuple(
        _signal(name, source, _series(name, source, folder, rates, start), [seed, FORECASTS, place])
        for place, (name, source) in enumerate(named)
        if source is not None
    )


def names_of(signals: Signals | None) -> tuple[str, ...]:
    """Return the names of the signals that a scenario has."""
    names = Signals.__struct_fields__
    return tuple(name for name in names if getattr(signals, name, None) is not None)


def draws_forecasts(signals: Signals | None) -> bool:
    """Return whether a forecast depends on the seed."""
    sources = [getattr(signals, name, None) for name in Signals.__struct_fields__]
    return any(source is not None and source.forecast_error > 0.0 for source in sources)


def _signal(name: str, source: SignalSource, series: Series, seeds: Sequence[int]) -> Signal:
    if not source.forecast_error:
        return Signal(name, series, source.forecast_s)
    deviation = source.forecast_error * abs(float(series.values.mean()))
    values = np.random.default_rng(seeds).normal(series.values, deviation)
    return Signal(name, series, source.forecast_s, replace(series, values=values))


def _series(
    name: str, source: SignalSource, folder: Path, rates: Rates, start: str | None
) -> Series:
    field = f"$.signals.{name}"
    if not source.has_values:
        series: Series | None = getattr(rates, name, None)
        if series is None:
            what = f"expected one of {', '.join(SOURCES)}"
            if name in ECONOMIC:
                what += f", or {ECONOMIC[name]} in economics"
            raise ScenarioError(f"{what}, got none", field=field)
        return series
    if source.value is not None:
        return constant(source.value)
    if source.changes is not None:
        times_s, values = np.array(source.changes, dtype=np.float64).T
        return _from_0(Series(times_s, values, source.repeat_s))
    return _read(name, source, folder, start)


def _read(name: str, source: SignalSource, folder: Path, start: str | None) -> Series:
    assert source.series is not None
    try:
        series = read_series(
            folder / source.series, repeat_s=source.repeat_s, quantity=QUANTITIES.get(name)
        )
    except WorkloadError as error:
        where = source.series if error.line is None else f"{source.series}:{error.line}"
        raise ScenarioError(f"{where}: {error.what}", field=f"$.signals.{name}.series") from None
    if start is None or series.first_date is None:
        return series
    return replace(series, origin_s=seconds_to(start, series.first_date, source.series))


def _from_0(series: Series) -> Series:
    """Return a series that begins at 0 if it has a period, in which the last value holds first."""
    if series.repeat_s is None or series.times_s[0] == 0.0:
        return series
    times_s, values = np.append(0.0, series.times_s), np.append(series.values[-1], series.values)
    return replace(series, times_s=times_s, values=values)
