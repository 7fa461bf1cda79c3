"""Statements of slurm.conf, gres.conf and topology.conf: lines of `Key=Value` pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcosim_slurm.files.errors import InputError
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.tables import LONGEST_LINE, lines_of
from hpcosim_slurm.files.units import shown

MOST_STATEMENTS = 200_000
MOST_INCLUDES = 100
_PAIR = re.compile(r'\s*([A-Za-z][\w-]*)\s*=\s*(?:"([^"]*)"|([^\s"]*))')
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*", re.IGNORECASE)


@dataclass
class Statement:
    """A line of a configuration.

    Attributes:
        path: the file.
        line: line in the file, from 1.
        key: first key, in lower case, such as `nodename`.
        values: values by key in lower case, with the first; a later value of a key replaces an
            earlier one.
        names: the keys as they are written.
    """

    path: Path
    line: int
    key: str
    values: dict[str, str]
    names: dict[str, str]

    @property
    def place(self) -> str:
        """The file and the line, for reports."""
        return f"{self.path.name}:{self.line}"

    def get(self, key: str, default: str = "") -> str:
        """Return a value by its key in lower case."""
        return self.values.get(key, default)

    def error(self, what: str) -> InputError:
        """Return an error at this line."""
        return InputError(what, self.path, self.line)


def read_statements(path: Path, report: ImportReport) -> list[Statement]:
    """Return the statements of a file and of the files that it includes.

    Included files must be in the folder of the file or below it. An include of another folder,
    such as `/etc/slurm/nodes.conf`, is looked up by its name beside the file.

    Args:
        path: the file.
        report: notes files that may be cut off.

    Raises:
        InputError: a file cannot be read, a line has another form, or there are too many lines.
    """
    found: list[Statement] = []
    files = [0]
    for statement in _statements(path, path.parent.resolve(), files, report):
        found.append(statement)
        if len(found) > MOST_STATEMENTS:
            raise statement.error(f"expected at most {MOST_STATEMENTS} lines")
    return found


def _statements(
    path: Path, root: Path, files: list[int], report: ImportReport
) -> Iterator[Statement]:
    files[0] += 1
    for number, text in _logical_lines(path, report):
        include = _INCLUDE.fullmatch(text)
        if include is None:
            yield parse_statement(path, number, text)
            continue
        if files[0] > MOST_INCLUDES:
            raise InputError(f"expected at most {MOST_INCLUDES} included files", path, number)
        yield from _statements(_included(include[1], path, number, root), root, files, report)


def _logical_lines(path: Path, report: ImportReport) -> Iterator[tuple[int, str]]:
    """Yield the lines without comments, those that end in a backslash with the next one."""
    begun, first = "", 0
    for number, text in lines_of(path, report):
        text = re.sub(r"(?<!\\)#.*", "", text).replace("\\#", "#").rstrip()
        first = first if begun else number
        if len(begun) > LONGEST_LINE:
            raise InputError(f"expected lines of up to {LONGEST_LINE} characters", path, number)
        if text.endswith("\\"):
            begun += text[:-1]
            continue
        if (begun + text).strip():
            yield first, begun + text
        begun = ""
    if begun.strip():
        yield first, begun


def _included(name: str, path: Path, number: int, root: Path) -> Path:
    wanted = Path(name)
    for candidate in (path.parent / wanted, root / wanted.name):
        place = candidate.resolve()
        if place.is_relative_to(root) and place.is_file():
            return candidate
    raise InputError(
        f"the included file {shown(name)} is not in the folder {root}; copy it there", path, number
    )


def parse_statement(path: Path, number: int, text: str) -> Statement:
    """Return the statement of a line.

    Raises:
        InputError: the line has another form.
    """
    values: dict[str, str] = {}
    names: dict[str, str] = {}
    key, at = "", 0
    while text[at:].strip():
        match = _PAIR.match(text, at)
        if match is None:
            what = f"expected `Key=Value` pairs, got {shown(text[at:].strip())}"
            raise InputError(what, path, number)
        lower = match[1].lower()
        key = key or lower
        values[lower] = match[2] if match[2] is not None else match[3]
        names[lower] = match[1]
        at = match.end()
    return Statement(path, number, key, values, names)
