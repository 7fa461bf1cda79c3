"""Strict reader of JSON files: every error names the file and the field."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from hpcosim_batsim.errors import InputError
from hpcosim_protocol.files import open_regular
from hpcosim_workloads.table import MAX_TIME_S

MAX_BYTES = 2**30  # of a file
MAX_NUMBER = 2**31 - 1
MAX_MAGNITUDE = MAX_TIME_S**2
UNITS: Mapping[str, str] = MappingProxyType(
    {"subtime": "s", "walltime": "s", "delay": "s", "cpu": "flop", "com": "bytes", "res": "hosts"}
)
"""Unit of each number of a workload file, by field."""


class Fields:
    """A JSON object with checked access to its fields.

    Every method that returns a field raises `InputError` if the field is missing or invalid.
    """

    def __init__(self, path: str, where: str, raw: Any) -> None:
        self.path = path
        self.where = where
        if not isinstance(raw, dict):
            raise InputError(path, where, f"must be an object, not {kind_of_value(raw)}")
        self.raw: dict[str, Any] = raw

    def error(self, name: str, what: str) -> InputError:
        """Return the error for a field."""
        where = f"{self.where}.{name}" if self.where else name
        return InputError(self.path, where, what)

    def get(self, name: str) -> Any:
        """Return a field of any type."""
        if name not in self.raw:
            raise self.error(name, "is missing")
        return self.raw[name]

    def text(self, name: str) -> str:
        """Return a string."""
        value = self.get(name)
        if not isinstance(value, str):
            raise self.error(name, f"must be a string, not {kind_of_value(value)}")
        return value

    def number(self, name: str) -> float:
        """Return a number."""
        return self.as_number(name, self.get(name))

    def as_number(self, name: str, value: Any) -> float:
        """Return the value of the field `name` as a number."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            what = f"must be a number, not {kind_of_value(value)}{_unit_hint(name, value)}"
            raise self.error(name, what)
        if not -MAX_MAGNITUDE <= value <= MAX_MAGNITUDE:
            raise self.error(name, f"is {value}; its absolute value must be <= {MAX_MAGNITUDE:g}")
        return float(value)

    def amount(self, name: str) -> float:
        """Return a number >= 0."""
        return self.not_negative(name, self.number(name))

    def amounts(self, name: str) -> tuple[float, ...]:
        """Return an array of numbers >= 0."""
        value = self.array(name)
        return tuple(
            self.not_negative(f"{name}[{i}]", self.as_number(f"{name}[{i}]", part))
            for i, part in enumerate(value)
        )

    def not_negative(self, name: str, value: float) -> float:
        """Return the value of the field `name` if it is >= 0."""
        if value < 0:
            raise self.error(name, f"is {value:g}; it must be >= 0")
        return value

    def integer(self, name: str, minimum: int, maximum: int = MAX_NUMBER) -> int:
        """Return an integer from `minimum` to `maximum`."""
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            what = f"must be an integer, not {kind_of_value(value)}{_unit_hint(name, value)}"
            raise self.error(name, what)
        if not minimum <= value <= maximum:
            raise self.error(name, f"is {value}; it must be from {minimum} to {maximum}")
        return value

    def array(self, name: str) -> Sequence[Any]:
        """Return an array."""
        value = self.get(name)
        if not isinstance(value, list):
            raise self.error(name, f"must be an array, not {kind_of_value(value)}")
        return value


def read_json(path: Path) -> Any:
    """Return the value of a JSON file."""
    try:
        with open_regular(path, sys.maxsize) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(str(path), "", f"cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise InputError(str(path), "", f"is larger than {MAX_BYTES // 2**20} MiB, the maximum")
    if data.lstrip().startswith(b"<"):
        what = "is XML; expected a workload in JSON. Are the files of -p and -w swapped?"
        raise InputError(str(path), "", what)
    if not data.strip():
        raise InputError(str(path), "", "the file is empty; expected a workload in JSON")
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(str(path), _line(data, str(error)), f"is not JSON: {error}") from None


def _line(data: bytes, message: str) -> str:
    """Return the line of the byte that msgspec's message names."""
    found = re.search(r"\(byte (\d+)\)", message)
    if found is None:
        return ""
    before = data.count(b"\n", 0, int(found.group(1)))
    return f"line {before + 1}"


def _unit_hint(name: str, value: Any) -> str:
    """Return how to write a number that is a string, "" for another value."""
    unit = UNITS.get(name.partition("[")[0])
    if not isinstance(value, str) or not re.match(r"\s*[0-9.]", value):
        return ""
    return f"; write it without quotes and without a unit{f', in {unit}' if unit else ''}"


def kind_of_value(value: Any) -> str:
    """Return a value's type, and a scalar's value, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the string {value[:40]!r}"
    if isinstance(value, dict):
        return "an object"
    return "an array" if isinstance(value, list) else f"the number {value}"
