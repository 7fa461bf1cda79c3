"""Reader of CSV files as columns, block by block."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hpcosim_view.errors import ReadResultsError
from hpcosim_workloads.table import MAX_TIME_S

BLOCK_ROWS = 50_000
BLOCK_CHARACTERS = 4_000_000
MAX_FILE_BYTES = 8 * 2**30
MAX_CELL_CHARACTERS = 64 * 2**20
MAX_SHOWN_CHARACTERS = 60

Cells = Sequence[str]
Convert = Callable[[Cells], Any]
"""Returns the values of cells; raises ValueError with what it expected."""


def read_columns(
    path: Path, required: Mapping[str, Convert], optional: Mapping[str, Convert] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the columns of each block of rows of a CSV file; other columns are not converted.

    Args:
        path: a CSV file with a header line.
        required: conversions of the columns that the file must have, by name.
        optional: conversions of columns that it may have; a missing column is not in the result.

    Raises:
        ReadResultsError: the file is missing, too large, cut off or damaged.
    """
    first_row = 0
    with open_text(path) as file:
        try:
            header = file.readline().rstrip("\r\n").split(",")
            chosen = _chosen_columns(path, header, required, optional or {})
            for columns, rows in _blocks(file, len(header)):
                if not columns:
                    raise located(path, first_row + rows, f"expected {len(header)} cells")
                yield _converted(path, first_row, columns, chosen)
                first_row += rows
        except UnicodeDecodeError as error:
            raise ReadResultsError(f"{path}: damaged: {error}") from None
        except csv.Error as error:
            raise ReadResultsError(f"{path}: after row {first_row}: damaged: {error}") from None


Block = tuple[list[Cells], int]
"""The columns of a block and its number of rows; no columns: the row of this index is damaged."""


def _blocks(file: IO[str], width: int) -> Iterator[Block]:
    """Yield the blocks of rows of a file after its header line.

    Splitting a text at each comma is several times as fast as `csv.reader`. A text with quotation
    marks, and all that follows it, is left to `csv.reader`.
    """
    while text := file.read(BLOCK_CHARACTERS) + file.readline():
        if '"' in text or "\r" in text:
            reader = csv.reader(chain(StringIO(text, newline=""), file), strict=True)
            while rows := list(islice(reader, BLOCK_ROWS)):
                bad = next((i for i, cells in enumerate(rows) if len(cells) != width), None)
                yield ([], bad) if bad is not None else ([*zip(*rows, strict=True)], len(rows))
            return
        cells = text.removesuffix("\n").replace("\n", ",\n,").split(",")
        ends = cells[width :: width + 1]
        if (len(cells) + 1) % (width + 1) or any(end != "\n" for end in ends):
            lines = text.split("\n")
            yield [], next(i for i, line in enumerate(lines) if line.count(",") != width - 1)
        else:
            yield [cells[i :: width + 1] for i in range(width)], len(ends) + 1


def located(path: Path, row: int, what: str) -> ReadResultsError:
    """Return an error with the line of a row; the first row after the header is row 0."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        next(islice(reader, row, row + 1), None)  # the header and the rows before
        line = reader.line_num + 1
    return ReadResultsError(f"{path}:{line}: {what}")


def open_text(path: Path) -> IO[str]:
    """Open a file of a results folder, which ends with a complete line.

    Raises:
        ReadResultsError: the file is missing, too large or cut off.
    """
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_CHARACTERS))
    try:
        with path.open("rb") as raw:
            size = raw.seek(0, 2)
            raw.seek(max(size - 1, 0))
            last = raw.read(1)
    except OSError as error:
        raise unreadable(path, error) from None
    if size > MAX_FILE_BYTES:
        raise ReadResultsError(f"{path}: {size} bytes; expected at most {MAX_FILE_BYTES}")
    if last != b"\n":
        raise ReadResultsError(f"{path}: the file is cut off: its last line is incomplete")
    return path.open(encoding="utf-8", newline="")


def unreadable(path: Path, error: OSError) -> ReadResultsError:
    """Return the error of a file of a results folder that cannot be read."""
    if isinstance(error, FileNotFoundError):
        what = "is missing, so this is half a results folder; run the scenario again"
        return ReadResultsError(f"{path} {what}")
    return ReadResultsError(f"{path}: cannot be read: {error.strerror or error}")


def _chosen_columns(
    path: Path,
    header: Sequence[str],
    required: Mapping[str, Convert],
    optional: Mapping[str, Convert],
) -> dict[str, tuple[int, Convert]]:
    """Return index and conversion of the columns to read."""
    if missing := [name for name in required if name not in header]:
        columns = ", ".join(missing)
        raise ReadResultsError(f"{path}:1: expected a header line with the columns {columns}")
    return {
        name: (header.index(name), convert)
        for name, convert in {**required, **optional}.items()
        if name in header
    }


def _converted(
    path: Path,
    first_row: int,
    columns: Sequence[Cells],
    chosen: Mapping[str, tuple[int, Convert]],
) -> dict[str, Any]:
    converted = {}
    for name, (index, convert) in chosen.items():
        try:
            converted[name] = convert(columns[index])
        except (ValueError, OverflowError):
            raise _first_error(path, first_row, name, columns[index], convert) from None
    return converted


def _first_error(
    path: Path, first_row: int, name: str, cells: Cells, convert: Convert
) -> ReadResultsError:
    """Return the error of the first cell that cannot be converted."""
    for row, cell in enumerate(cells):
        try:
            convert((cell,))
        except (ValueError, OverflowError) as error:
            got = cell if len(cell) <= MAX_SHOWN_CHARACTERS else cell[:MAX_SHOWN_CHARACTERS] + "..."
            return located(path, first_row + row, f"{name}: {error}; got {got!r}")
    return ReadResultsError(f"{path}: {name}: damaged")


# Conversions


def times_s(cells: Cells) -> NDArray[np.float64]:
    """Return times, float64, s."""
    return _in_range(_floats(cells), MAX_TIME_S, "a time in s")


def optional_times_s(cells: Cells) -> NDArray[np.float64]:
    """Return times, float64, s; NaN for an empty cell."""
    values = np.full(len(cells), np.nan)
    filled = np.array([bool(cell) for cell in cells], bool)
    values[filled] = times_s([cell for cell in cells if cell])
    return values


def amounts(cells: Cells) -> NDArray[np.float64]:
    """Return finite numbers that are not negative, float64."""
    values = _floats(cells)
    if not np.all((values >= 0.0) & np.isfinite(values)):
        raise ValueError("expected a number >= 0")
    return values


def durations_s(cells: Cells) -> NDArray[np.float64]:
    """Return durations, float64, s; infinity is allowed."""
    values = _floats(cells)
    if not np.all(values >= 0.0):
        raise ValueError("expected a duration in s")
    return values


def integers(cells: Cells) -> NDArray[np.int64]:
    """Return integers, int64."""
    try:
        return np.array(array("q", map(int, cells)), np.int64)
    except (ValueError, OverflowError):
        raise ValueError("expected an integer of 64 bits") from None


def counts(cells: Cells) -> NDArray[np.int64]:
    """Return integers from 1 to 2^31 - 1, int64."""
    values = integers(cells)
    if not np.all((values >= 1) & (values < 2**31)):
        raise ValueError("expected an integer from 1 to 2147483647")
    return values


def one_of(names: Sequence[str]) -> Convert:
    """Return the conversion of names to their indices, int64."""
    codes = {name: code for code, name in enumerate(names)}

    def convert(cells: Cells) -> NDArray[np.int64]:
        try:
            return np.array([codes[cell] for cell in cells], np.int64)
        except KeyError:
            raise ValueError(f"expected one of {', '.join(names)}") from None

    return convert


class Names:
    """Numbers names in the order in which they appear; an empty name has number -1."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {"": -1}
        self._names: list[str] = []

    def __len__(self) -> int:
        return len(self._names)

    def since(self, first: int) -> list[str]:
        """Return the names from a number on."""
        return self._names[first:]

    def __call__(self, cells: Cells) -> NDArray[np.int64]:
        """Return the numbers of names, int64."""
        codes = self._codes
        for name in dict.fromkeys(cells):
            if name not in codes:
                codes[name] = len(self._names)
                self._names.append(name)
        return np.array([codes[cell] for cell in cells], np.int64)


def lists(cells: Cells) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the length of each list of integers such as `0 1 5`, and all their elements."""
    try:
        elements = np.array(array("i", map(int, " ".join(cells).split())), np.int64)
    except (ValueError, OverflowError):
        raise ValueError("expected integers, separated by spaces") from None
    lengths = np.array([cell.count(" ") + 1 if cell else 0 for cell in cells], np.int64)
    if lengths.sum() != len(elements):
        raise ValueError("expected integers, separated by spaces")
    return lengths, elements


def intervals(cells: Cells) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of intervals of each cell such as `0-3 7`, and first and last of each."""
    parts = " ".join(cells).split(" ")
    is_range = np.array(["-" in part for part in parts], bool)
    try:
        numbers = np.array(array("i", map(int, " ".join(parts).replace("-", " ").split(" "))))
    except (ValueError, OverflowError):
        raise ValueError("expected intervals of node numbers, such as 0-3 7") from None
    if len(numbers) != len(parts) + is_range.sum():
        raise ValueError("expected intervals of node numbers, such as 0-3 7")
    at = np.cumsum(1 + is_range) - 1  # index of the last number of each part
    first, last = numbers[at - is_range].astype(np.int64), numbers[at].astype(np.int64)
    if np.any(first > last):
        raise ValueError("expected ascending intervals of node numbers, such as 0-3 7")
    return np.array([cell.count(" ") + 1 for cell in cells], np.int64), first, last


def _floats(cells: Cells) -> NDArray[np.float64]:
    try:
        return np.array(array("d", map(float, cells)), np.float64)
    except ValueError:
        raise ValueError("expected a number") from None


def _in_range(values: NDArray[np.float64], limit: float, what: str) -> NDArray[np.float64]:
    if not np.all(np.abs(values) <= limit):
        raise ValueError(f"expected {what} from {-limit:g} to {limit:g}")
    return values
