"""Titles, units and scales of metrics, by the suffixes of their names."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hpcosim_experiments.statistics.rows import Row, Rows

SIGNIFICANT = 3
MAX_DIGITS = 4


class Unit(NamedTuple):
    """A unit of tables and figures.

    Attributes:
        least: smallest maximum of the values for which it is used, in the unit of the metric.
        scale: number of units of the metric per unit.
        name: its symbol.
    """

    least: float
    scale: float
    name: str


UNITS: Mapping[str, Sequence[Unit]] = {
    "_js": [Unit(3.6e10, 1.296e10, "kWh h"), Unit(0.0, 1.0, "J s")],
    "_kwh": [Unit(1e4, 1e3, "MWh"), Unit(0.0, 1.0, "kWh")],
    "_kg": [Unit(1e4, 1e3, "t"), Unit(0.0, 1.0, "kg")],
    "_mb": [Unit(1e4, 1e3, "GB"), Unit(0.0, 1.0, "MB")],
    "_s": [
        Unit(14 * 86400.0, 86400.0, "days"),
        Unit(7200.0, 3600.0, "h"),
        Unit(600.0, 60.0, "min"),
        Unit(0.0, 1.0, "s"),
    ],
    "_j": [Unit(3.6e10, 3.6e9, "MWh"), Unit(3.6e6, 3.6e6, "kWh"), Unit(0.0, 1.0, "J")],
    "_g": [Unit(1e4, 1e3, "kg"), Unit(0.0, 1.0, "g")],
    "_w": [Unit(1e4, 1e3, "kW"), Unit(0.0, 1.0, "W")],
}
"""Units by suffix of a metric's name, each with the largest first."""

SHARES = ("utilization", "job_filling_rate")
"""Metrics from 0 to 1, shown in percent."""

OF_NO_SUFFIX: Mapping[str, Sequence[Unit]] = {
    "mean_normalised_edp": UNITS["_w"],
    **{name: [Unit(0.0, 0.01, "%")] for name in SHARES},
}
"""Units of metrics whose names have no suffix of a unit."""

WORDS = {"edp": "EDP", "co2": "CO2"}
PERCENTILE = re.compile(r"p(\d+)")


def measure_of(metric: str, values: Iterable[float | None]) -> Measure:
    """Return the presentation of a metric in a table or a figure.

    Args:
        metric: its name, such as `mean_wait_s`.
        values: its values there, in the unit of the metric; they decide between s and h, J and
            kWh. None and NaN are left out.
    """
    largest = max(map(abs, _known(values)), default=0.0)
    suffix = next((suffix for suffix in UNITS if metric.endswith(suffix)), "")
    units = OF_NO_SUFFIX.get(metric) or UNITS.get(suffix, [Unit(0.0, 1.0, "")])
    unit = next(unit for unit in units if largest >= unit.least)
    return Measure(metric, _title(metric.removesuffix(suffix)), unit.name, unit.scale)


def with_digits(measure: Measure, values: Iterable[float | None]) -> Measure:
    """Return a measure with the number of digits that shows values with three significant ones.

    Args:
        values: the values, in the unit of the metric. The median of those that are not 0 counts.
            None and NaN are left out.
    """
    sizes = sorted(abs(value) / measure.scale for value in _known(values) if value)
    if not sizes or all(size == int(size) for size in sizes):
        return measure._replace(digits=0)
    before_point = math.floor(math.log10(sizes[len(sizes) // 2])) + 1
    return measure._replace(digits=min(max(SIGNIFICANT - before_point, 0), MAX_DIGITS))


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _title(name: str) -> str:
    words = name.split("_")
    if found := PERCENTILE.fullmatch(words[0]):
        words[0] = f"{found[1]}th-percentile"
    return " ".join(WORDS.get(word, word) for word in words)


class Measure(NamedTuple):
    """A result column with its presentation in tables and figures.

    Attributes:
        column: name of the column in the rows.
        title: title in tables and figures.
        unit: displayed unit; empty if the measure has none.
        scale: number of units of the column per displayed unit, such as 3600 for s to h.
        digits: number of digits after the decimal point.
    """

    column: str
    title: str
    unit: str = ""
    scale: float = 1.0
    digits: int = 0

    @property
    def named(self) -> str:
        """Title with unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def of(self, row: Row) -> float:
        """Return the value of a row, in `unit`."""
        return float(row[self.column]) / self.scale

    def values(self, rows: Rows) -> list[float]:
        """Return the values of rows, in `unit`."""
        return [self.of(row) for row in rows]

    def mean(self, rows: Rows) -> float:
        """Return the mean over rows, in `unit`."""
        return statistics.fmean(self.values(rows))

    def text(self, value: float) -> str:
        """Return the text of a value in `unit`."""
        return f"{value:,.{self.digits}f}"

    def spread(self, rows: Rows) -> str:
        """Return the text of the mean over rows; with several rows also minimum and maximum."""
        values = self.values(rows)
        text = self.text(statistics.fmean(values))
        if len(values) < 2:
            return text
        return f"{text} ({self.text(min(values))} to {self.text(max(values))})"
