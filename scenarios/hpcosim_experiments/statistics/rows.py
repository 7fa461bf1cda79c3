"""Tables of results: a row maps column names to values, a table is a list of rows."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_experiments.errors import ExperimentError

Label = str | int | float | bool
"""Label of a value of an axis."""

Labels = Mapping[str, Label]
"""Labels of a combination, by axis."""

Row = Mapping[str, Any]
Rows = Sequence[Row]


def where(rows: Iterable[Row], **values: object) -> list[Row]:
    """Return the rows whose columns have the given values."""
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def groups(rows: Iterable[Row], *columns: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows grouped by their values in `columns`, in order of first occurrence."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in columns), []).append(row)
    return found


def write_rows(
    path: Path, columns: Sequence[str], rows: Iterable[Row], digits: int | None = 10
) -> None:
    """Write rows as CSV.

    Args:
        path: output file.
        columns: columns to write, in this order.
        rows: rows that contain these columns; None becomes an empty cell.
        digits: significant digits of floats; None: full precision.

    Raises:
        OSError: the file is not writable.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(columns)
        lines.writerows([_text(row[name], digits) for name in columns] for row in rows)


def read_rows(path: Path, columns: Sequence[str] = ()) -> list[Row]:
    """Return the rows of a CSV file. Numeric cells become int or float.

    Raises:
        ExperimentError: the file is not readable, is not a CSV file, or lacks a required column.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file, restval="")
            missing = [name for name in columns if name not in (lines.fieldnames or ())]
            rows: list[Row] = [
                {name: _value(cell) for name, cell in line.items()} for line in lines
            ]
    except OSError as error:
        raise ExperimentError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (csv.Error, UnicodeDecodeError, TypeError) as error:
        raise ExperimentError(f"{path}: expected a CSV table: {error}") from None
    if missing:
        raise ExperimentError(
            f"{path}: expected the columns {', '.join(columns)}; missing: {missing}"
        )
    return rows


def _text(value: object, digits: int | None) -> object:
    return f"{value:.{digits}g}" if isinstance(value, float) and digits is not None else value


def _value(cell: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


class Identical(NamedTuple):
    """An axis of repeats whose labels make no difference in some combinations.

    Attributes:
        combinations: number of combinations in which all runs over the axis are identical.
        of: number of combinations with several successful runs over the axis.
    """

    axis: str
    combinations: int
    of: int

    @property
    def text(self) -> str:
        """A sentence that says how the statistics treat the runs."""
        where = ""
        if self.combinations < self.of:
            where = f" in {self.combinations} of {self.of} combinations"
        return (
            f"{self.axis} makes no difference{where}: all metrics of the runs are equal, so these "
            f"runs count as one and have no interval."
        )


def metrics_in(row: Row) -> Mapping[str, Any]:
    """Return the values of a row that are not texts: its metrics and its numeric labels."""
    return {name: value for name, value in row.items() if not isinstance(value, str)}


def distinct(
    rows: Sequence[Row],
    over: Sequence[str],
    metrics: Callable[[Row], Mapping[str, Any]] = metrics_in,
) -> list[Row]:
    """Return rows without the copies along the axes of repeats.

    If all rows that differ only by their label on an axis are identical, for every combination of
    the other axes of repeats, the first row of each stays. Otherwise all rows stay, so that values
    that are equal by chance count.

    Args:
        rows: successful runs of one combination.
        over: axes of repeats.
        metrics: returns the values to compare; labels on `over` are ignored.
    """
    found = list(rows)
    for axis in over:
        found = without_copies(found, axis, over, metrics) or found
    return found


def without_copies(
    rows: Sequence[Row],
    axis: str,
    over: Sequence[str],
    metrics: Callable[[Row], Mapping[str, Any]] = metrics_in,
) -> list[Row]:
    """Return the first row of each set of copies along an axis; empty: some rows are no copies.

    Arguments are those of `distinct`.
    """
    along = groups(rows, *(other for other in over if other != axis)).values()
    if len(along) == len(rows):
        return []

    def values(row: Row) -> dict[str, Any]:
        return {name: value for name, value in metrics(row).items() if name not in over}

    same = all(values(row) == values(group[0]) for group in along for row in group[1:])
    return [group[0] for group in along] if same else []
