"""Measures of runs, and Markdown tables of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hpcosim_studies.rows import Row, Rows


class Measure(NamedTuple):
    """The presentation of a column of results in tables and figures.

    Attributes:
        column: name of the column.
        title: title in tables and figures.
        unit: displayed unit; empty: none.
        scale: number of the column's units in one `unit`.
        digits: digits after the decimal point.
    """

    column: str
    title: str
    unit: str = ""
    scale: float = 1.0
    digits: int = 0

    @property
    def named(self) -> str:
        """The title, with the unit."""
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
        """Return a value in `unit` as text."""
        return f"{value:,.{self.digits}f}"

    def spread(self, rows: Rows) -> str:
        """Return the mean over rows as text, with minimum and maximum if there are several rows."""
        values = self.values(rows)
        text = self.text(statistics.fmean(values))
        if len(values) < 2:
            return text
        return f"{text} ({self.text(min(values))} to {self.text(max(values))})"


def deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation; 0 for a single value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def change(value: float, base: float) -> float:
    """Return the change of a value relative to a base, in %; NaN if the base is 0."""
    return 100 * (value / base - 1) if base else float("nan")


def table(head: Sequence[str], lines: Iterable[Sequence[str]], rule: str = "---") -> list[str]:
    """Return a Markdown table, as lines.

    Args:
        head: titles of the columns.
        lines: cells of the lines.
        rule: cell of the second line.
    """
    drawn = [f"| {' | '.join(cells)} |" for cells in (head, *lines)]
    return [drawn[0], f"|{'|'.join([rule] * len(head))}|", *drawn[1:]]


def document(*parts: Sequence[str]) -> str:
    """Return parts joined by empty lines, without empty parts."""
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"
