"""Time series of a scenario: price and carbon intensity of electricity, and signals.

Series with dates share a common time 0, the date at which the simulation starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import numpy as np
from msgspec import Meta, Struct

from hpcosim_protocol.platform import Fraction, NotNegative
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.logs import sha256_of
from hpcosim_scenarios.model.messages import Currency
from hpcosim_sim.engine.signals import Signal
from hpcosim_sim.record.economics import UNKNOWN, EconomicsSource, Rates, SeriesFile
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.series import MOST_VALUE, Quantity, Series, constant, read_series

if TYPE_CHECKING:
    from hpcosim_scenarios.model.scenario import Scenario


START = "$.economics.start"
RATES = ("tariff", "series of carbon intensity")


Rate = Annotated[float, Meta(ge=0, le=MOST_VALUE)]
Period = Annotated[float, Meta(ge=1, le=1e12)]
Moment = Annotated[float, Meta(ge=-1e12, le=1e12)]
Date = Annotated[str, Meta(min_length=1, max_length=100)]
File = Annotated[str, Meta(min_length=1, max_length=1000)]

FIELD = "$.economics"


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


class ScenarioSeries(NamedTuple):
    """A series of a scenario that comes from a file.

    Attributes:
        name: name in warnings: one of `RATES`, or that of the signal.
        field: path of the field that names the file.
        file: the file as the scenario writes it.
        series: its content.
    """

    name: str
    field: str
    file: str
    series: Series


def date_of(text: str) -> datetime:
    """Return the date and time in a text.

    Raises:
        ValueError: the text is no date.
    """
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        what = f"expected a date and time such as 2024-03-01T00:00, got {text!r}"
        raise ValueError(f"start: {what}") from None


def date_text(date: datetime) -> str:
    """Return a date in ISO 8601, without seconds that are 0."""
    whole = not date.second and not date.microsecond
    return date.isoformat(timespec="minutes" if whole else "auto")


def seconds_to(start: str, first_date: datetime, file: str) -> float:
    """Return the time from the first date of a file to the start of the simulation, s.

    Raises:
        ScenarioError: only one of the two has a UTC offset; has the field.
    """
    date = date_of(start)
    if (date.tzinfo is None) == (first_date.tzinfo is None):
        return (date - first_date).total_seconds()
    expected = "a date without" if date.tzinfo else "a date with"
    what = f"expected {expected} a UTC offset, as in {file}: {date_text(first_date)}, got {start}"
    raise ScenarioError(what, field=START)


def series_of(scenario: Scenario, rates: Rates, signals: Iterable[Signal]) -> list[ScenarioSeries]:
    """Return the series of a scenario that come from files, each once."""
    found = []
    economics = scenario.economics
    values = (rates.price_per_kwh, rates.co2_g_per_kwh)
    for name, key, series in zip(RATES, ("tariff", "series"), values, strict=True):
        file = getattr(economics, key, None)
        if file is not None and series is not None:
            found.append(ScenarioSeries(name, f"$.economics.{key}", file, series))
    for signal in signals:
        file = getattr(scenario.signals, signal.name).series
        if file is not None:
            field = f"$.signals.{signal.name}.series"
            name = f"signal {signal.name}"
            found.append(ScenarioSeries(name, field, file, signal.series))
    return found


def check_dates(scenario: Scenario, series: Iterable[ScenarioSeries]) -> None:
    """Check that time 0 of the simulation has the same date in all files with dates.

    Args:
        series: its series, as of `series_of`.

    Raises:
        ScenarioError: two files disagree, or `start` or `start_s` of `economics` applies to no
            file; has the field.
    """
    series = list(series)
    dated = [each for each in series if each.series.first_date is not None]
    economics = scenario.economics
    if economics is not None and economics.start is not None:
        if not dated:
            what = "applies to files with dates; use start_s, the time in the files, s, instead"
            raise ScenarioError(what, field=START)
        without = [each for each in series if each.name in RATES and each.series.first_date is None]
        if economics.start_s is not None and not without:
            what = "applies to a tariff or series without dates when start is set; remove it"
            raise ScenarioError(what, field="$.economics.start_s")
        return
    for other in dated[1:]:
        _check_same_start(dated[0], other)


def _check_same_start(one: ScenarioSeries, other: ScenarioSeries) -> None:
    """Check that time 0 of the simulation has the same date in two files."""
    first, second = one.series.first_date, other.series.first_date
    assert first is not None
    assert second is not None
    both = f"{other.file} begins at {date_text(second)}, {one.file} at {date_text(first)}"
    if (first.tzinfo is None) != (second.tzinfo is None):
        what = f"{both}; expected dates with a UTC offset in all files or in none"
        raise ScenarioError(what, field=other.field)
    apart_s = (second - first).total_seconds()
    if apart_s + other.series.origin_s == one.series.origin_s:
        return
    if apart_s:
        start = f"such as {date_text(max(first, second))}"
        what = f"{both}; set economics.start to the date at which the simulation starts, {start}"
    else:
        what = f"start_s moves time 0 of {one.file}, but not that of {other.file}"
        what += "; set economics.start, the date at which the simulation starts, instead"
    raise ScenarioError(what, field=other.field)


def moved_warnings(
    scenario: Scenario, series: Iterable[ScenarioSeries], moved_s: float
) -> list[str]:
    """Return warnings if a selection moves the jobs to time 0, but not the series of the scenario.

    Args:
        series: its series, as of `series_of`.
        moved_s: time of the first selected job in the source, as of `jobs.moved_s`.
    """
    workload = scenario.workload
    selections = [name for name in ("window_s", "jobs") if getattr(workload, name) is not None]
    moved = f"workload.{' and '.join(selections)} moves the job of {moved_s:.15g} s to time 0"
    by_fix: dict[str, list[str]] = {}
    for each in series:
        if moved_s and (fix := _fix(scenario, each, moved_s)):
            by_fix.setdefault(fix, []).append(each.name)
    return [f"{moved}, but not the {' and the '.join(of)}; {fix}" for fix, of in by_fix.items()]


def _fix(scenario: Scenario, each: ScenarioSeries, moved_s: float) -> str:
    """Return how to move a series as far as the jobs; empty: it is not needed."""
    economics, repeat_s = scenario.economics, each.series.repeat_s
    if len(each.series.times_s) == 1 or (repeat_s is not None and moved_s % repeat_s == 0.0):
        return ""
    start = None if economics is None else economics.start
    start_s = None if economics is None or each.name not in RATES else economics.start_s
    if start_s is not None:
        return ""
    if each.series.first_date is not None:
        return "" if start else "set economics.start to the date at which that job was submitted"
    if each.name not in RATES:  # times of a signal in seconds are those of the simulation
        return ""
    return f"set economics.start_s to {moved_s:.15g} if their times have the same origin"


class Economics(Struct, frozen=True, forbid_unknown_fields=True):
    """The price and the carbon intensity of electricity, for the metrics of cost and emissions.

    Each is constant or comes from a CSV file with a header and two columns: `time_s`, or `time` as
    a date and time such as `2020-01-01T00:30`, and the value from then on. Either all dates have a
    UTC offset (`Z`, `+01:00`) or none has. The last value holds for ever, and the first one also
    before its time. A header that states another unit, such as `eur_per_mwh`, is an error.

    Attributes:
        currency: the currency of the price, a code of ISO 4217 such as `EUR`.
        price_per_kwh: price of 1 kWh, in the currency.
        tariff: path of a file with the price of 1 kWh over time, relative to the scenario's folder.
            A price may be negative.
        tariff_repeat_s: period of a tariff that repeats, such as 86400 for every day. Null: the
            tariff does not repeat.
        co2_g_per_kwh: carbon intensity, g of CO2 per kWh.
        series: path of a file with the carbon intensity over time, g of CO2 per kWh, relative to
            the scenario's folder.
        series_repeat_s: period of a series that repeats. Null: the series does not repeat.
        start: date of simulation time 0, such as `2024-03-01T08:00`. It applies to all files with
            dates, also those of `signals`. Null: time 0 of a file is its first date, and all files
            with dates must begin at the same one.
        start_s: time of the tariff and of the series at simulation time 0, s: 28800 if the
            simulation starts at 8:00 and the files at 0:00. With `start` it applies to files
            without dates. Null: 0.
    """

    currency: Currency = "EUR"
    price_per_kwh: Rate | None = None
    tariff: File | None = None
    tariff_repeat_s: Period | None = None
    co2_g_per_kwh: Rate | None = None
    series: File | None = None
    series_repeat_s: Period | None = None
    start: Date | None = None
    start_s: Moment | None = None

    def __post_init__(self) -> None:
        for rate, file in (("price_per_kwh", "tariff"), ("co2_g_per_kwh", "series")):
            given = [name for name in (rate, file) if getattr(self, name) is not None]
            if len(given) == 2:
                raise ValueError(f"expected {rate} or {file}, got both; remove one of them")
            repeat = f"{file}_repeat_s"
            if file not in given and getattr(self, repeat) is not None:
                raise ValueError(f"{repeat} applies to {file}; add {file} or remove {repeat}")
        rates = (self.price_per_kwh, self.tariff, self.co2_g_per_kwh, self.series)
        if self.start is not None:
            date_of(self.start)
        elif all(each is None for each in rates):
            raise ValueError("expected price_per_kwh, tariff, co2_g_per_kwh or series, got none")


class LoadedEconomics(NamedTuple):
    """The economics of a scenario with the content of its files.

    Attributes:
        rates: price and carbon intensity.
        source: their origin, for `run.json`.
    """

    rates: Rates
    source: EconomicsSource


def load_economics(economics: Economics, folder: Path) -> LoadedEconomics:
    """Read the files of an economics section.

    Args:
        economics: the section.
        folder: the folder of the scenario's file.

    Raises:
        ScenarioError: a file cannot be read or is invalid. It has the field, and the file and line
            of the table, not those of the scenario.
    """
    tariff, series = economics.tariff, economics.series
    price = economics.price_per_kwh
    co2 = economics.co2_g_per_kwh
    return LoadedEconomics(
        Rates(
            _read(economics, "tariff", folder) if price is None else constant(price),
            _read(economics, "series", folder) if co2 is None else constant(co2),
        ),
        EconomicsSource(
            currency=economics.currency,
            tariff=None if tariff is None else _file(tariff, folder),
            series=None if series is None else _file(series, folder),
        ),
    )


def _read(economics: Economics, key: Literal["tariff", "series"], folder: Path) -> Series | None:
    """Return the series in the file that a key names; None: the key has no value."""
    name = getattr(economics, key)
    if name is None:
        return None
    try:
        series = read_series(
            folder / name,
            least=0.0 if key == "series" else -MOST_VALUE,
            repeat_s=getattr(economics, f"{key}_repeat_s"),
            origin_s=economics.start_s or 0.0,
            quantity="co2" if key == "series" else "price",
        )
    except WorkloadError as error:
        where = name if error.line is None else f"{name}:{error.line}"
        raise ScenarioError(f"{where}: {error.what}", field=f"{FIELD}.{key}") from None
    if economics.start is None:
        return series
    if series.first_date is not None:
        return replace(series, origin_s=seconds_to(economics.start, series.first_date, name))
    if economics.start_s is None:
        what = f"{name} has no dates; also set start_s, its time at which the simulation starts, s"
        raise ScenarioError(what, field=f"{FIELD}.start")
    return series


def _file(name: str, folder: Path) -> SeriesFile:
    return SeriesFile(file=name, sha256=sha256_of(folder / name))


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
    """Check the times of a signal in a scenario."""
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
    return _read_signal(name, source, folder, start)


def _read_signal(name: str, source: SignalSource, folder: Path, start: str | None) -> Series:
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
