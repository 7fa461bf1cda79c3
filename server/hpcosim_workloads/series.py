"""Time series of values that are constant between changes: electricity prices, carbon intensity."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol.files import open_table
from hpcosim_workloads.errors import WorkloadError, check

# Units in the header of a time series: a column in another unit is an error.

Quantity = Literal["price", "co2"]
"""Quantity of a series: price of 1 kWh, or carbon intensity in g of CO2 per kWh."""

EXPECTED: Mapping[Quantity, str] = {
    "price": "a price per kWh (a column such as eur_per_kwh)",
    "co2": "a carbon intensity in g/kWh (a column such as g_per_kwh)",
}
PER_MWH = {"mwh", "mwhe", "mwhel"}
CENTS = {"ct", "cts", "cent", "cents"}
KILOGRAMS = {"kg", "kgco2", "kgco2e", "kgco2eq"}
TONNES = {"t", "tco2", "tco2e", "tco2eq", "ton", "tons", "tonne", "tonnes"}
MONEY = {"price", "tariff", "cost", "eur", "usd", "gbp", "chf", "jpy", "cny", "sek", "nok", "dkk"}
MONEY |= {"pln", "czk", "huf", "cad", "aud", "inr", "brl", "krw", *CENTS}
SYMBOLS = str.maketrans({"€": "eur", "£": "gbp", "$": "usd"})
PER_KWH = re.compile("([a-z]{3})_(per_)?[km]wh")
CARBON = re.compile("k?g|k?gco2.*|co2.*|carbon.*|emissions?")


def check_unit(column: str, quantity: Quantity, path: Path) -> None:
    """Check that the name of a column does not state another quantity or unit.

    Names without a unit, such as `value`, are accepted.

    Args:
        quantity: the quantity that the values must have.

    Raises:
        WorkloadError: the name states another unit; with the line and the conversion.
    """
    words = re.findall("[a-z0-9]+", column.lower().translate(SYMBOLS))
    wrong = _other_quantity(words, quantity) or _conversion(words, quantity)
    if wrong:
        raise WorkloadError(f"expected {EXPECTED[quantity]}, got {column[:80]!r}; {wrong}", path, 1)


def _other_quantity(words: list[str], quantity: Quantity) -> str:
    """Return the advice for a column of the other quantity; empty: it is not one."""
    carbon = any(CARBON.fullmatch(word) for word in words) or bool(TONNES & set(words))
    if quantity == "price":
        return "use a file with prices, or rename the column if it has prices" if carbon else ""
    currency = PER_KWH.fullmatch("_".join(words))
    money = bool(MONEY & set(words)) or (currency is not None and currency[1] != "ghg")
    what = "use a file with carbon intensities, or rename the column if it has them"
    return what if money and not carbon else ""


def _conversion(words: list[str], quantity: Quantity) -> str:
    """Return the advice for a column in another unit; empty: its unit is not known to be wrong."""
    factors = dict.fromkeys(PER_MWH, 1 / 1000)
    factors |= dict.fromkeys(CENTS, 1 / 100) if quantity == "price" else {}
    factors |= dict.fromkeys(KILOGRAMS, 1e3) | dict.fromkeys(TONNES, 1e6)
    found = [factors[word] for word in words if word in factors]
    if not found:
        return ""
    factor, column = math.prod(found), "g_per_kwh" if quantity == "co2" else "eur_per_kwh"
    if math.isclose(factor, 1.0):
        return f"the values are the same: rename the column to {column}"
    change = f"divide them by {1 / factor:g}" if factor < 1 else f"multiply them by {factor:g}"
    return f"{change} and rename the column, for example to {column}"


Floats = NDArray[np.float64]
Row = tuple[int, float, float]
"""Line number, time (s) and value of a row of a file."""

MAX_ROWS = 2_000_000
LEAST_PERIOD_S = 1.0
MOST_S = 1e12
MOST_VALUE = 1e12
TIME_COLUMNS = ("time_s", "time")


@dataclass(frozen=True, slots=True)
class Series:
    """A piecewise constant function of simulation time.

    `values[i]` holds from `times_s[i]` to before `times_s[i + 1]`. The last value holds for ever,
    and the first one also before `times_s[0]`. With `repeat_s`, the function is periodic instead.

    Attributes:
        times_s: float64[changes], strictly ascending, s. With `repeat_s` the first is 0 and the
            last is less than `repeat_s`.
        values: float64[changes], finite.
        repeat_s: period, s, > 0; None: the function is not periodic.
        origin_s: time of the series at simulation time 0, s: the value at time t of the simulation
            is that of the series at t + `origin_s`.
        first_date: date of time 0 of the series, local or with a UTC offset; None: the times of the
            series are not dates.
    """

    times_s: Floats
    values: Floats
    repeat_s: float | None = None
    origin_s: float = 0.0
    first_date: datetime | None = None

    def at(self, time_s: float) -> float:
        """Return the value at a simulation time."""
        moment_s = time_s + self.origin_s
        if self.repeat_s is not None:
            moment_s %= self.repeat_s
        place = int(np.searchsorted(self.times_s, moment_s, side="right")) - 1
        return float(self.values[max(place, 0)])

    def changes(self, start_s: float, end_s: float) -> list[tuple[float, float]]:
        """Return the simulation times (s) and values of the changes after start and before end."""
        times_s, values = self.times_s, self.values
        if self.repeat_s is not None:
            first, last = (
                math.floor((t + self.origin_s) / self.repeat_s) for t in (start_s, end_s)
            )
            periods = np.arange(first, last + 1, dtype=np.float64)
            times_s = np.add.outer(periods * self.repeat_s, times_s).ravel()
            values = np.tile(values, len(periods))
        times_s = times_s - self.origin_s
        inside = (times_s > start_s) & (times_s < end_s)
        return list(zip(times_s[inside].tolist(), values[inside].tolist(), strict=True))

    def integral(self, start_s: float, end_s: float) -> float:
        """Return the integral over simulation time, in the unit of the values times s."""
        changes = [(start_s, self.at(start_s)), *self.changes(start_s, end_s)]
        ends_s = [time_s for time_s, _ in changes[1:]] + [end_s]
        return math.fsum(
            value * (until_s - since_s)
            for (since_s, value), until_s in zip(changes, ends_s, strict=True)
        )

    def cumulative(self, times_s: Floats) -> Floats:
        """Return the integral from a fixed time to each time, in the unit of the values times s.

        The difference of two elements is the integral between their times. All elements together
        cost little more than one call of `integral`, whose sum is more precise.

        Args:
            times_s: float64[times], simulation times in any order, s.
        """
        moments_s = times_s + self.origin_s
        if self.repeat_s is None:
            return self._cumulative(moments_s)
        periods = np.floor(moments_s / self.repeat_s)
        of_period = self._cumulative(np.array([self.repeat_s]))
        return periods * of_period + self._cumulative(moments_s - periods * self.repeat_s)

    def _cumulative(self, moments_s: Floats) -> Floats:
        """Return the integral from `times_s[0]` to each time of the series, without repetition."""
        at_changes = np.concatenate(([0.0], np.cumsum(np.diff(self.times_s) * self.values[:-1])))
        place = np.maximum(np.searchsorted(self.times_s, moments_s, side="right") - 1, 0)
        return at_changes[place] + (moments_s - self.times_s[place]) * self.values[place]


def constant(value: float) -> Series:
    """Return the series that always has one value."""
    return Series(np.zeros(1), np.array([value], dtype=np.float64))


def read_series(
    path: Path,
    *,
    least: float = -MOST_VALUE,
    most: float = MOST_VALUE,
    repeat_s: float | None = None,
    origin_s: float = 0.0,
    quantity: Quantity | None = None,
) -> Series:
    """Read a series from a CSV file with a header and two columns.

    The first column is `time_s`, a time in s, or `time`, a date and time in ISO 8601, of which the
    first one is time 0 of the series. Either all dates have a UTC offset, such as
    `2020-01-01T00:30Z`, or none has, such as `2020-01-01T00:30`; each day of the latter has 24
    hours. The second column contains
    the values; its name is free, but it must not state another unit than that of `quantity`.

    Args:
        least: least value.
        repeat_s: period of a series that repeats, s, >= 1; its times are from 0 to before the
            period, and the last value also holds before the first time. None: it does not repeat.
        origin_s: time of the series at simulation time 0, s.
        quantity: quantity of the values, see `check_unit`. None: any.

    Raises:
        WorkloadError: the file cannot be read or is no such table; or an argument is out of range.
    """
    valid = repeat_s is None or LEAST_PERIOD_S <= repeat_s <= MOST_S
    check(valid, "repeat_s", repeat_s, f"from {LEAST_PERIOD_S:g} to {MOST_S:g}")
    check(abs(origin_s) <= MOST_S, "origin_s", origin_s, f"from {-MOST_S:g} to {MOST_S:g}")
    try:
        with open_table(path) as file:
            first_date, rows = _table(file, path, quantity)
    except OSError as error:
        raise WorkloadError(f"cannot be read: {error.strerror or error}", path) from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise WorkloadError(f"expected a CSV table in UTF-8: {error}", path) from None
    except ValueError as error:  # a null byte in the path
        raise WorkloadError(f"cannot be read: {error}", path) from None
    _check_rows(rows, path, least, most, repeat_s)
    _, times_s, values = zip(*rows, strict=True)
    if repeat_s is not None and times_s[0] > 0.0:
        times_s, values = (0.0, *times_s), (values[-1], *values)
    return Series(np.array(times_s), np.array(values), repeat_s, origin_s, first_date)


def _table(
    file: Iterator[str], path: Path, quantity: Quantity | None
) -> tuple[datetime | None, list[Row]]:
    """Return the date of time 0, None without dates, and the rows of a file."""
    lines = csv.reader(file)
    header = [name.strip() for name in next(lines, [])]
    if len(header) != 2 or header[0] not in TIME_COLUMNS:
        found = ",".join(header)[:80] or "nothing"
        what = f"expected a header with two columns, such as `time_s,value`, got {found}"
        raise WorkloadError(what, path, 1)
    if quantity is not None:
        check_unit(header[1], quantity, path)
    first: datetime | None = None
    rows: list[Row] = []
    for line in lines:
        if not line:
            continue
        number = lines.line_num
        if number > MAX_ROWS:
            raise WorkloadError(f"expected at most {MAX_ROWS} lines", path, number)
        if len(line) != 2:
            raise WorkloadError(f"expected 2 columns, got {len(line)}", path, number)
        if header[0] == "time_s":
            time_s = _number(line[0], path, number)
        else:
            moment = _moment(line[0], first, path, number)
            first = first or moment
            time_s = (moment - first).total_seconds()
        rows.append((number, time_s, _number(line[1], path, number)))
    return first, rows


def _check_rows(
    rows: Sequence[Row],
    path: Path,
    least: float,
    most: float,
    repeat_s: float | None,
) -> None:
    """Check that there are rows, with ascending times and all numbers in range."""
    if not rows:
        raise WorkloadError("expected at least one row below the header", path)
    before_s = -math.inf
    for number, time_s, value in rows:
        if time_s <= before_s:
            what = f"expected times in ascending order, got {time_s:.15g} s after {before_s:.15g} s"
            raise WorkloadError(what, path, number)
        if abs(time_s) > MOST_S:
            what = f"expected times from {-MOST_S:g} to {MOST_S:g} s, got {time_s:.15g} s"
            raise WorkloadError(what, path, number)
        if repeat_s is not None and not 0.0 <= time_s < repeat_s:
            what = f"expected times from 0 to before {repeat_s:.15g} s, when the series repeats"
            raise WorkloadError(f"{what}, got {time_s:.15g} s", path, number)
        if not least <= value <= most:
            what = f"expected a value from {least:g} to {most:g}, got {value:.15g}"
            raise WorkloadError(what, path, number)
        before_s = time_s


def _number(text: str, path: Path, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise WorkloadError(f"expected a finite number, got {text!r}", path, line)
    return value


def _moment(text: str, first: datetime | None, path: Path, line: int) -> datetime:
    """Return the date of a row; `first` is that of the first row, None in the first row itself."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        what = f"expected a date and time such as 2020-01-01T00:30, got {text!r}"
        raise WorkloadError(what, path, line) from None
    if first is not None and (first.tzinfo is None) != (moment.tzinfo is None):
        what = "expected a UTC offset, such as Z or +01:00, in all rows or in none"
        raise WorkloadError(f"{what}, got {text!r} after {first.isoformat()}", path, line)
    return moment
