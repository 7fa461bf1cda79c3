"""Reader of files of external events: one JSON object per line.

{"type": "machine_unavailable", "timestamp": 10, "resources": "0-3"}
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.json_fields import kind_of_value
from hpcosim_batsim.inputs.workload_model import Json
from hpcosim_protocol.files import read_regular
from hpcosim_workloads.table import MAX_TIME_S

_INTERVAL = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def parse_intervals(text: str, hosts: int) -> list[int]:
    """Return the hosts of an interval set in ascending order.

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
        hosts: hosts that become unavailable or available; empty for other types.
        name: its id in messages of Batsim 5, `ee0!2` of the third line of the first file.
    """

    time_s: float
    kind: str
    hosts: tuple[int, ...]
    raw: Json
    name: str = ""


def read_external_events(
    paths: Iterable[Path], hosts: int, *, forward_unknown: bool
) -> list[ExternalEvent]:
    """Return the events of files by time.

    Args:
        forward_unknown: accept events of other types, for the scheduler.

    Raises:
        InputError: a file cannot be read, or a line is invalid; names the line.
    """
    return _by_time(paths, lambda line, _: _event(line, hosts, forward_unknown))


GENERIC = "generic"


def read_generic_events(paths: Iterable[Path]) -> list[ExternalEvent]:
    """Return the events of files of Batsim 5 by time.

    Raises:
        InputError: a file cannot be read, or a line is invalid; names the line.
    """
    return _by_time(paths, _generic_event)


def _by_time(
    paths: Iterable[Path], event_of: Callable[[bytes, str], ExternalEvent]
) -> list[ExternalEvent]:
    events = []
    for file, path in enumerate(paths):
        try:
            lines = read_regular(path).splitlines()
        except OSError as error:
            raise InputError(str(path), "", f"cannot be read: {error.strerror or error}") from error
        count = 0
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    events.append(event_of(line, f"ee{file}!{count}"))
                except ValueError as error:
                    raise InputError(str(path), f"line {number}", str(error)) from None
                count += 1
    return sorted(events, key=lambda event: event.time_s)


def _generic_event(line: bytes, name: str) -> ExternalEvent:
    kind, time_s, raw = _fields(line)
    if kind != GENERIC:
        raise ValueError(f"type: expected {GENERIC!r}, the only type of Batsim 5, got {kind!r}")
    if not isinstance(raw.get("data"), str):
        raise ValueError(f"data: expected a string, got {kind_of_value(raw.get('data'))}")
    return ExternalEvent(time_s, kind, (), raw, name)


def _fields(line: bytes) -> tuple[str, float, dict[str, Any]]:
    """Return type, time and all fields of an event."""
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
    return kind, float(time_s), raw


def _event(line: bytes, hosts: int, forward_unknown: bool) -> ExternalEvent:
    kind, time_s, raw = _fields(line)
    if kind in (UNAVAILABLE, AVAILABLE):
        return ExternalEvent(time_s, kind, _hosts(raw.get("resources"), hosts), raw)
    if not forward_unknown:
        raise ValueError(
            f"unknown type {kind!r}; expected {UNAVAILABLE} or {AVAILABLE}, or the option "
            "--forward-unknown-events for other types"
        )
    return ExternalEvent(time_s, kind, (), raw)


def _hosts(resources: object, hosts: int) -> tuple[int, ...]:
    if not isinstance(resources, str):
        raise ValueError(
            f"resources: expected a string such as '0-3 5', got {kind_of_value(resources)}"
        )
    return tuple(parse_intervals(resources, hosts))
