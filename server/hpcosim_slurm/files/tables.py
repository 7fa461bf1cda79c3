"""Tables as text: a header, then one record a line, with fields separated by one character.

A file that cannot be read or is damaged is an `InputError`.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.files.report import ImportReport
from hpcosim_workloads.errors import CutOffError, WorkloadError
from hpcosim_workloads.logs.log_file import numbered_lines
from hpcosim_workloads.logs.quantities import shown

MOST_COLUMNS = 500
LONGEST_LINE = 2**20
HEADER = "the first line must be the names of the columns"

Fits = Callable[[dict[str, str]], bool]


class Row(NamedTuple):
    """A record of a table.

    Attributes:
        values: the fields by column, without surrounding blanks.
    """

    line: int
    values: dict[str, str]


def lines_of(
    path: Path, report: ImportReport | None = None, longest: int = LONGEST_LINE
) -> Iterator[tuple[int, str]]:
    """Yield the lines of a plain or gzipped file with their numbers, without line ends.

    Args:
        report: notes that the file is cut off; None: that is an error.
        longest: the longest line, bytes; a longer one is an error.
    """
    number, raw = 0, b"\n"
    try:
        for number, raw in numbered_lines(path):
            if number == 1:
                _check_encoding(raw, path)
            if len(raw) > longest:
                what = f"expected lines of up to {longest} bytes, got {len(raw)}"
                raise InputError(what, path, number)
            yield number, raw.decode("utf-8", "replace").rstrip("\r\n")
    except CutOffError as error:
        if report is None:
            raise InputError(error.what, error.path, error.line) from None
        report.add("dropped", "the rest of a compressed file that is cut off", _at(path, number))
    except WorkloadError as error:
        raise InputError(error.what, error.path, error.line) from None
    if raw.endswith(b"\n"):
        return
    if report is None:
        what = "the file ends within this line, so it is probably cut off; make it again"
        raise InputError(f"{what}, or end the line if the file is complete", path, number)
    what = "the last line has no line end: the file may be cut off"
    report.add("guessed", what, _at(path, number))


def _at(path: Path, number: int) -> str:
    return f"{path.name}:{number}"


def _check_encoding(first: bytes, path: Path) -> None:
    """Check that a first line is not that of a file in UTF-16, as PowerShell writes them."""
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in first:
        what = "expected a file in UTF-8, got one in UTF-16 or with bytes that are 0; convert it"
        raise InputError(f"{what}: iconv -f UTF-16 -t UTF-8 OLD > NEW", path, 1)


def read_table(
    path: Path,
    report: ImportReport,
    *,
    delimiter: str = "|",
    free_text: Sequence[str] = (),
    fits: Fits = lambda values: True,
    advice: str = "",
    strict: bool = False,
) -> Iterator[Row]:
    """Yield the records of a table; the names of the columns are those of its first line.

    A record with another number of fields is dropped and counted, unless a column of `free_text`
    contains the delimiter. Records that equal the header are skipped, because files are joined with
    `cat`.

    Args:
        delimiter: character between two fields. With `,` fields may be quoted.
        free_text: columns whose text may contain the delimiter.
        fits: returns whether a record can be right; decides which of them contains it.
        advice: how to make such a file, for errors.
        strict: a damaged record is an error instead.
    """
    names: list[str] = []
    for number, text in lines_of(path, None if strict else report):
        if not text.strip():
            continue
        fields = _split(text, delimiter)
        if not names:
            names = _header(fields, path, number, delimiter, advice)
            continue
        if len(fields) > len(names):
            fields = _joined(fields, names, free_text, delimiter, fits)
            if len(fields) == len(names):
                report.add("guessed", "texts that contain the delimiter", number)
        if len(fields) != len(names):
            if strict:
                what = f"expected {len(names)} fields as in the first line, got {len(fields)}"
                raise InputError(f"{what}; {advice}", path, number)
            kind = "truncated records" if len(fields) < len(names) else "records with extra fields"
            report.add("dropped", kind, number)
        elif fields != names:
            values = (field.strip() for field in fields)
            yield Row(number, dict(zip(names, values, strict=True)))
    if not names:
        raise InputError(f"the file is empty{advice and '; ' + advice}", path)


def require(columns: Sequence[str], needed: Sequence[str], path: Path, advice: str) -> None:
    """Check that a table has columns.

    Args:
        needed: names; `A/B` is met by either.
        advice: how to make a file with them, for the error.
    """
    missing = [each for each in needed if not any(name in columns for name in each.split("/"))]
    if missing:
        what = f"the columns {', '.join(missing)} are missing; {HEADER}"
        raise InputError(f"{what}; {advice}", path, 1)


def _split(text: str, delimiter: str) -> list[str]:
    if delimiter == ",":
        try:
            return next(csv.reader([text]), [])
        except csv.Error:
            return []
    return text.split(delimiter)


def _header(fields: list[str], path: Path, number: int, delimiter: str, advice: str) -> list[str]:
    names = [field.strip() for field in fields]
    if len(names) < 2 or len(names) > MOST_COLUMNS:
        what = f"expected the names of columns separated by {delimiter!r}, got"
        raise InputError(f"{what} {shown(delimiter.join(fields))}; {advice}", path, number)
    repeated = next((name for name in names if name and names.count(name) > 1), None)
    if repeated is not None:
        what = f"the column {shown(repeated)} is there twice; {HEADER}"
        raise InputError(f"{what}{advice and '; ' + advice}", path, number)
    return names


def _joined(
    fields: list[str], names: list[str], free_text: Sequence[str], delimiter: str, fits: Fits
) -> list[str]:
    """Return the fields after joining those of a free text that contains the delimiter."""
    extra = len(fields) - len(names)
    for column in free_text:
        if column in names:
            at = names.index(column)
            text = delimiter.join(fields[at : at + extra + 1])
            joined = [*fields[:at], text, *fields[at + extra + 1 :]]
            if fits(dict(zip(names, joined, strict=True))):
                return joined
    return fields
