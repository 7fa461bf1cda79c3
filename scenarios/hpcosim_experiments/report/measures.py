"""Measures: result columns with their presentation."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from hpcosim_experiments.statistics.rows import Row, Rows


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
