"""Tables of results: a row maps column names to values, a table is a list of rows."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

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

    Args:
        path: input file.
        columns: required columns.

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
