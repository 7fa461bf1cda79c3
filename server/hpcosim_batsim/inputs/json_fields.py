"""Reading JSON files strictly: every error names the file and the field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from hpcosim_batsim.errors import InputError
from hpcosim_workloads.table import LATEST_S

MAX_BYTES = 2**30  # of a file
MAX_NUMBER = 2**31 - 1


class Fields:
    """An object of a JSON file, whose fields are read one by one.

    Args:
        path: the file.
        where: the object's place in it.
        raw: the object.
    """

    def __init__(self, path: str, where: str, raw: Any) -> None:
        self.path = path
        self.where = where
        if not isinstance(raw, dict):
            raise InputError(path, where, f"must be an object, not {kind_of_value(raw)}")
        self.raw: dict[str, Any] = raw

    def wrong(self, name: str, what: str) -> InputError:
        """Return the error that something is wrong with a field."""
        where = f"{self.where}.{name}" if self.where else name
        return InputError(self.path, where, what)

    def get(self, name: str) -> Any:
        """Return a field of any type.

        Raises:
            InputError: it is missing; so do the other readers, for values of a wrong type, too.
        """
        if name not in self.raw:
            raise self.wrong(name, "is missing")
        return self.raw[name]

    def text(self, name: str) -> str:
        """Return a string."""
        value = self.get(name)
        if not isinstance(value, str):
            raise self.wrong(name, f"must be a string, not {kind_of_value(value)}")
        return value

    def number(self, name: str) -> float:
        """Return a number."""
        return self.as_number(name, self.get(name))

    def as_number(self, name: str, value: Any) -> float:
        """Return a value as the number that the field `name` must be."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(name, f"must be a number, not {kind_of_value(value)}")
        if not -(LATEST_S**2) <= value <= LATEST_S**2:
            raise self.wrong(name, f"is {value}; no number may be that large")
        return float(value)

    def amount(self, name: str) -> float:
        """Return a number that is not negative."""
        return self.not_negative(name, self.number(name))

    def amounts(self, name: str) -> tuple[float, ...]:
        """Return an array of numbers that are not negative."""
        value = self.array(name)
        return tuple(
            self.not_negative(f"{name}[{i}]", self.as_number(f"{name}[{i}]", part))
            for i, part in enumerate(value)
        )

    def not_negative(self, name: str, value: float) -> float:
        """Return a value unless it is negative."""
        if value < 0:
            raise self.wrong(name, f"is {value:g}; it must not be below 0")
        return value

    def whole(self, name: str, least: int, most: int = MAX_NUMBER) -> int:
        """Return a whole number from `least` to `most`."""
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(name, f"must be a whole number, not {kind_of_value(value)}")
        if not least <= value <= most:
            raise self.wrong(name, f"is {value}; it must be from {least} to {most}")
        return value

    def array(self, name: str) -> Sequence[Any]:
        """Return an array."""
        value = self.get(name)
        if not isinstance(value, list):
            raise self.wrong(name, f"must be an array, not {kind_of_value(value)}")
        return value


def read_json(path: Path) -> Any:
    """Return the value of a JSON file.

    Raises:
        InputError: it can't be read, is too large or no JSON; names the line.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(str(path), "", f"can't be read: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise InputError(str(path), "", f"is larger than {MAX_BYTES // 2**20} MiB, the most")
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(str(path), _line(data, str(error)), f"is not JSON: {error}") from None


def _line(data: bytes, message: str) -> str:
    """Return the line of the byte that a message of msgspec's names."""
    found = re.search(r"\(byte (\d+)\)", message)
    if found is None:
        return ""
    before = data.count(b"\n", 0, int(found.group(1)))
    return f"line {before + 1}"


def kind_of_value(value: Any) -> str:
    """Return what a value is, for a person who knows JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the string {value[:40]!r}"
    if isinstance(value, dict):
        return "an object"
    return "an array" if isinstance(value, list) else f"the number {value}"
