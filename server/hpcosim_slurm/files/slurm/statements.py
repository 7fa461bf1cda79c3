"""Statements of slurm.conf and the files beside it: `Key=Value` pairs and their values.

A value of another form is a `FieldError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.tables import LONGEST_LINE, lines_of
from hpcosim_workloads.logs.quantities import (
    MB_BY_UNIT,
    UNLIMITED,
    FieldError,
    duration_s,
    memory_of,
    shown,
)

MOST_STATEMENTS = 200_000
MOST_INCLUDES = 100
_PAIR = re.compile(r'\s*([A-Za-z][\w-]*)\s*=\s*(?:"([^"]*)"|([^\s"]*))')
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*", re.IGNORECASE)

YES, NO = frozenset(("yes", "true", "up", "1", "on")), frozenset(("no", "false", "0", "off"))


@dataclass
class Statement:
    """A line of a configuration.

    Attributes:
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


def whole(text: str) -> int:
    """Return a whole number."""
    if not text.isdecimal() or len(text) > 18:
        raise FieldError(f"expected a whole number, got {shown(text)}")
    return int(text)


def optional_whole(text: str) -> int | None:
    """Return a whole number; None: empty, `-1`, `UNLIMITED` or the like."""
    return None if not text or text.lower() in UNLIMITED else whole(text)


def truth(text: str) -> bool:
    """Return whether a text such as `YES` is true."""
    if text.lower() in YES | NO:
        return text.lower() in YES
    raise FieldError(f"expected YES or NO, got {shown(text)}")


def names(text: str) -> list[str]:
    """Return the names of a comma-separated list; `ALL` is no limit and gives none."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    return [] if found and found[0].upper() == "ALL" else found


def optional_seconds(text: str) -> float | None:
    """Return a duration in seconds; None: empty or unlimited."""
    return duration_s(text) if text else None


def minutes(text: str) -> float:
    """Return minutes as seconds."""
    return whole(text) * 60.0


def tres_weights(text: str) -> dict[str, float]:
    """Return weights such as `CPU=1.0,Mem=0.25G,GRES/gpu=2.0`; that of memory is for each MB."""
    found: dict[str, float] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = entry.partition("=")
        name = _tres_name(name)
        unit = value[-1:].upper() if value[-1:].upper() in MB_BY_UNIT else ""
        try:
            weight = float(value[:-1] if unit else value)
        except ValueError:
            raise FieldError(
                f"expected weights such as CPU=1.0,Mem=0.25G, got {shown(entry)}"
            ) from None
        if not equals or not weight >= 0 or weight == float("inf"):
            raise FieldError(f"expected weights such as CPU=1.0,Mem=0.25G, got {shown(entry)}")
        found[name] = weight / (MB_BY_UNIT[unit] if name == "mem" else 1.0)
    return found


def tres_limits(text: str) -> dict[str, float]:
    """Return limits such as `cpu=100,mem=1T,gres/gpu=8`; memory in MB; -1 is no limit."""
    found: dict[str, float] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = entry.partition("=")
        if value == "-1":
            continue
        if not value:
            raise FieldError(f"expected limits such as cpu=100,mem=1T, got {shown(entry)}")
        name = _tres_name(name)
        memory = memory_of(value)
        plain = name != "mem" and not value[-1:].isalpha()
        found[name] = float(value) if plain else memory.mb * (1.0 if name == "mem" else 2.0**20)
    return found


def _tres_name(name: str) -> str:
    head, slash, rest = name.strip().partition("/")
    return f"{head.lower()}{slash}{rest}"
