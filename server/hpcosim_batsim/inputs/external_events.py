"""Reader of files of external events: one JSON object per line.

{"type": "machine_unavailable", "timestamp": 10, "resources": "0-3"}
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.workload_model import Json
from hpcosim_protocol.keys import open_regular, read_regular
from hpcosim_workloads.table import MAX_TIME_S

# Parser of Batsim's interval sets of hosts, such as `0-3 5`.

_INTERVAL = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


MAX_BYTES = 2**30  # of a file
MAX_NUMBER = 2**31 - 1
MAX_MAGNITUDE = MAX_TIME_S**2
UNITS: Mapping[str, str] = MappingProxyType(
    {"subtime": "s", "walltime": "s", "delay": "s", "cpu": "flop", "com": "bytes", "res": "hosts"}
)
"""Unit of each number of a workload file, by field."""


def parse_intervals(text: str, hosts: int) -> list[int]:
    """Return the hosts of an interval set in ascending order.

    Args:
        text: intervals, separated by spaces or commas.
        hosts: number of hosts.

    Raises:
        ValueError: the text is not an interval set, is empty, has a host twice, or has a number
            that is not a host.
    """
    numbers: list[int] = []
    for part in text.replace(",", " ").split():
        found = _INTERVAL.fullmatch(part)
        if found is None:
            raise ValueError(
                f"expected a host number or an interval such as 0-3, got {part[:40]!r}"
            )
        first = int(found[1])
        last = first if found[2] is None else int(found[2])
        if last < first:
            raise ValueError(f"expected an ascending interval, got {part!r}")
        if last >= hosts:
            raise ValueError(f"there is no host {last}; expected 0 to {hosts - 1}")
        numbers.extend(range(first, last + 1))
        if len(numbers) > hosts:
            raise ValueError(f"{text[:40]!r} has a host twice")
    if not numbers:
        raise ValueError("expected at least one host, got an empty interval set")
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"{text[:40]!r} has a host twice")
    return sorted(numbers)


UNAVAILABLE, AVAILABLE = "machine_unavailable", "machine_available"


class ExternalEvent(Struct, frozen=True):
    """An event that does not depend on the scheduler.

    Attributes:
        time_s: simulated time, s.
        kind: type of the event.
        hosts: hosts that become unavailable or available; empty for other types.
        raw: the JSON object.
    """

    time_s: float
    kind: str
    hosts: tuple[int, ...]
    raw: Json


def read_external_events(
    paths: Iterable[Path], hosts: int, *, forward_unknown: bool
) -> list[ExternalEvent]:
    """Return the events of files by time.

    Args:
        paths: the files.
        hosts: number of compute hosts.
        forward_unknown: accept events of other types, for the scheduler.

    Raises:
        InputError: a file cannot be read, or a line is invalid; names the line.
    """
    events = []
    for path in paths:
        try:
            lines = read_regular(path).splitlines()
        except OSError as error:
            raise InputError(str(path), "", f"cannot be read: {error.strerror or error}") from error
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    events.append(_event(line, hosts, forward_unknown))
                except ValueError as error:
                    raise InputError(str(path), f"line {number}", str(error)) from None
    return sorted(events, key=lambda event: event.time_s)


def _event(line: bytes, hosts: int, forward_unknown: bool) -> ExternalEvent:
    try:
        raw: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"is not a JSON object: {error}") from None
    kind, time_s = raw.get("type"), raw.get("timestamp")
    if not isinstance(kind, str):
        raise ValueError(f"type: expected a string, got {kind_of_value(kind)}")
    if isinstance(time_s, bool) or not isinstance(time_s, int | float):
        raise ValueError(f"timestamp: expected a number, in s, got {kind_of_value(time_s)}")
    if not (math.isfinite(time_s) and 0 <= time_s <= MAX_TIME_S):
        raise ValueError(f"timestamp: expected 0 to {MAX_TIME_S:g} s, got {time_s}")
    if kind in (UNAVAILABLE, AVAILABLE):
        return ExternalEvent(float(time_s), kind, _hosts(raw.get("resources"), hosts), raw)
    if not forward_unknown:
        raise ValueError(
            f"unknown type {kind!r}; expected {UNAVAILABLE} or {AVAILABLE}, or the option "
            "--forward-unknown-events for other types"
        )
    return ExternalEvent(float(time_s), kind, (), raw)


def _hosts(resources: object, hosts: int) -> tuple[int, ...]:
    if not isinstance(resources, str):
        raise ValueError(
            f"resources: expected a string such as '0-3 5', got {kind_of_value(resources)}"
        )
    return tuple(parse_intervals(resources, hosts))


class Fields:
    """A JSON object with checked access to its fields.

    Every method that returns a field raises `InputError` if the field is missing or invalid.

    Args:
        path: the file, for errors.
        where: path of the object in the file, for errors.
        raw: the object.
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
    """Return the value of a JSON file.

    Raises:
        InputError: the file cannot be read, is too large or is not JSON; names the line.
    """
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
