"""Measures of runs, and the Markdown tables made of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hpcosim_studies.rows import Row, Rows


class Measure(NamedTuple):
    """A column of results as tables and figures show it.

    Attributes:
        column: its name in the rows.
        title: its name for people.
        unit: that it is shown in; empty: none.
        scale: how much of the column's unit makes one of `unit`.
        digits: after the decimal point.
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
        """Return a value, in `unit`, for a table."""
        return f"{value:,.{self.digits}f}"

    def spread(self, rows: Rows) -> str:
        """Return the mean over rows for a table, of several rows with the least and the most."""
        values = self.values(rows)
        text = self.text(statistics.fmean(values))
        if len(values) < 2:
            return text
        return f"{text} ({self.text(min(values))} to {self.text(max(values))})"


def deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation; 0 for a single value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def change(value: float, base: float) -> float:
    """Return by how many percent a value is above a base; NaN if the base is 0."""
    return 100 * (value / base - 1) if base else float("nan")


def table(head: Sequence[str], lines: Iterable[Sequence[str]], rule: str = "---") -> list[str]:
    """Return a Markdown table, as lines.

    Args:
        head: the titles of the columns.
        lines: the cells, a sequence for each line.
        rule: what stands between the bars of the second line.
    """
    drawn = [f"| {' | '.join(cells)} |" for cells in (head, *lines)]
    return [drawn[0], f"|{'|'.join([rule] * len(head))}|", *drawn[1:]]


def document(*parts: Sequence[str]) -> str:
    """Return a text made of parts with an empty line between two; empty parts are left out."""
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"
