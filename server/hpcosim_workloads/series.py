"""Time series of values that are constant between changes: electricity prices, carbon intensity."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hpcosim_workloads.errors import WorkloadError

MAX_ROWS = 2_000_000
TIME_COLUMNS = ("time_s", "time")


@dataclass(frozen=True, slots=True)
class Series:
    """A piecewise constant function of time.

    `values[i]` holds from `times_s[i]` to before `times_s[i + 1]`; the last value holds for ever,
    and the first one also before `times_s[0]`.

    Attributes:
        times_s: float64[changes], strictly ascending, s.
        values: float64[changes], finite.
    """

    times_s: NDArray[np.float64]
    values: NDArray[np.float64]

    def at(self, time_s: float) -> float:
        """Return the value at a time."""
        place = int(np.searchsorted(self.times_s, time_s, side="right")) - 1
        return float(self.values[max(place, 0)])

    def integral(self, start_s: float, end_s: float) -> float:
        """Return the integral over time, in the unit of the values times s.

        Args:
            start_s: begin, s.
            end_s: end, s; not before `start_s`.
        """
        edges = self.times_s[(self.times_s > start_s) & (self.times_s < end_s)]
        bounds = np.concatenate(([start_s], edges, [end_s]))
        places = np.searchsorted(self.times_s, bounds[:-1], side="right") - 1
        return float(np.diff(bounds) @ self.values[np.maximum(places, 0)])

    def changes(self, start_s: float, end_s: float) -> list[tuple[float, float]]:
        """Return the times (s) and values of the changes after `start_s` and before `end_s`."""
        inside = (self.times_s > start_s) & (self.times_s < end_s)
        return list(zip(self.times_s[inside].tolist(), self.values[inside].tolist(), strict=True))


def constant(value: float) -> Series:
    """Return the series that always has one value."""
    return Series(np.zeros(1), np.array([value], dtype=np.float64))


def read_series(path: Path) -> Series:
    """Read a series from a CSV file with a header and two columns.

    The first column is `time_s`, a time in s of the simulation, or `time`, a local date and time in
    ISO 8601, such as `2020-01-01T00:30`, of which the first one is time 0 of the simulation. The
    second column contains the values; its name is free.

    Args:
        path: the file.

    Raises:
        WorkloadError: the file cannot be read or is no such table.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _series(list(_rows(file, path)), path)
    except OSError as error:
        raise WorkloadError(f"cannot be read: {error.strerror or error}", path) from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise WorkloadError(f"expected a CSV table in UTF-8: {error}", path) from None


def _rows(file: Iterator[str], path: Path) -> Iterator[tuple[int, float, float]]:
    """Yield line number, time (s) and value of each row."""
    lines = csv.reader(file)
    header = [name.strip() for name in next(lines, [])]
    if len(header) != 2 or header[0] not in TIME_COLUMNS:
        what = f"expected a header of two columns, time_s or time and a value, got {header}"
        raise WorkloadError(what, path, 1)
    first: datetime | None = None
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
            moment = _moment(line[0], path, number)
            first = first or moment
            time_s = (moment - first).total_seconds()
        yield number, time_s, _number(line[1], path, number)


def _series(rows: Sequence[tuple[int, float, float]], path: Path) -> Series:
    if not rows:
        raise WorkloadError("expected at least one row below the header", path)
    before_s = -math.inf
    for number, time_s, _ in rows:
        if time_s <= before_s:
            what = f"expected times in ascending order, got {time_s:g} s after {before_s:g} s"
            raise WorkloadError(what, path, number)
        before_s = time_s
    _, times_s, values = zip(*rows, strict=True)
    return Series(np.array(times_s), np.array(values))


def _number(text: str, path: Path, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise WorkloadError(f"expected a finite number, got {text!r}", path, line)
    return value


def _moment(text: str, path: Path, line: int) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        what = f"expected a date and time such as 2020-01-01T00:30, got {text!r}"
        raise WorkloadError(what, path, line) from None
    if moment.tzinfo is not None:
        raise WorkloadError(f"expected a local time without a UTC offset, got {text!r}", path, line)
    return moment
