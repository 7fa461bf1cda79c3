"""Tables of a report as data: their cells, columns and rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hpcosim_experiments.report.captions import sentence
from hpcosim_experiments.report.measures import Measure
from hpcosim_experiments.report.units import with_digits
from hpcosim_experiments.statistics.bootstrap import Estimate
from hpcosim_experiments.statistics.rows import Labels

UNDEFINED = "n/a"

MOST_DIGITS = 12
"""Largest number of digits after the decimal point that a bold cell has."""

MINUS = "\N{MINUS SIGN}"


class Cell(NamedTuple):
    """A cell of a table.

    Attributes:
        text: the text.
        interval: the confidence interval; empty: none.
        strong: whether the interval excludes the value of no difference.
    """

    text: str
    interval: str = ""
    strong: bool = False


class Table(NamedTuple):
    """A table of a report.

    Attributes:
        name: name of its LaTeX file, without suffix.
        title: its title.
        caption: its caption.
        head: titles of the columns.
        rows: the cells of each row.
        labels: number of first columns that are left-aligned labels.
    """

    name: str
    title: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    labels: int


def labels_text(labels: Labels) -> str:
    """Return labels in a sentence: `scheduler easy, load 0.7`; text labels without their axis."""
    return ", ".join(
        label if isinstance(label, str) else f"{axis} {label}" for axis, label in labels.items()
    )


def column_of(
    measure: Measure, estimates: Sequence[Estimate], none: float | None = None
) -> tuple[str, list[Cell]]:
    """Return the title of a column of estimates, and its cells.

    Args:
        measure: the measure.
        estimates: the estimates, in the unit of the metric.
        none: value that means no difference; None: the column has no differences.
    """
    fine = with_digits(measure, [one.value for one in estimates])
    return sentence(fine.named), [_cell(one, fine, none) for one in estimates]


def _cell(one: Estimate, measure: Measure, none: float | None) -> Cell:
    """Return the cell of an estimate."""
    if one.value != one.value:  # NaN
        return Cell(UNDEFINED)
    if not one.has_interval:
        return Cell(_text(one.value, measure))
    strong = none is not None and not one.low <= none <= one.high
    if strong and none is not None:
        measure = _apart(measure, (one.low, one.high), none)
    value, low, high = (_text(each, measure) for each in (one.value, one.low, one.high))
    return Cell(value, f"[{low}, {high}]", strong)


def _text(value: float, measure: Measure) -> str:
    """Return a value, in the unit of the metric, in that of the measure."""
    return measure.text(value / measure.scale).replace("-", MINUS)


def _apart(measure: Measure, bounds: Sequence[float], none: float) -> Measure:
    """Return a measure with the digits that show bounds as different from `none`."""
    while measure.digits < MOST_DIGITS:
        if _text(none, measure) not in {_text(bound, measure).strip(MINUS) for bound in bounds}:
            break
        measure = measure._replace(digits=measure.digits + 1)
    return measure


def rows_of(
    labels: Sequence[Labels], counts: Sequence[str], columns: Sequence[Sequence[Cell]]
) -> list[list[Cell]]:
    """Return the rows of a table: labels, number of runs, and a cell of each column."""
    return [
        [*label_cells(of), Cell(count), *cells]
        for of, count, *cells in zip(labels, counts, *columns, strict=True)
    ]


def label_cells(labels: Labels) -> list[Cell]:
    """Return the cells of labels."""
    return [Cell(str(label)) for label in labels.values()]


def part_of(part: int, whole: int) -> str:
    """Return a number as a part of another one: `3 of 5`, or `5` if it is all."""
    return str(whole) if part == whole else f"{part} of {whole}"
