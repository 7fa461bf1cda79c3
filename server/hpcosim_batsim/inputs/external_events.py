"""Files of external events: a JSON object a line.

{"type": "machine_unavailable", "timestamp": 10, "resources": "0-3"}
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.intervals import parse_intervals
from hpcosim_batsim.inputs.workload_model import Json
from hpcosim_workloads.table import LATEST_S

UNAVAILABLE, AVAILABLE = "machine_unavailable", "machine_available"


class ExternalEvent(Struct, frozen=True):
    """Something that happens whatever is scheduled.

    Attributes:
        time_s: when.
        kind: its type.
        hosts: which are unavailable, or available again; empty: it is of another type.
        raw: the object as it was written.
    """

    time_s: float
    kind: str
    hosts: tuple[int, ...]
    raw: Json


def read_external_events(
    paths: Iterable[Path], hosts: int, *, forward_unknown: bool
) -> list[ExternalEvent]:
    """Return the events of files, by time.

    Args:
        paths: the files.
        hosts: how many there are.
        forward_unknown: events of other types go to the scheduler; else there can be none.

    Raises:
        InputError: a file can't be read, or has what can't be; names the line.
    """
    events = []
    for path in paths:
        try:
            lines = path.read_bytes().splitlines()
        except OSError as error:
            raise InputError(str(path), "", f"can't be read: {error.strerror or error}") from error
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
        raise ValueError(f"is no JSON object: {error}") from None
    kind, time_s = raw.get("type"), raw.get("timestamp")
    if not isinstance(kind, str):
        raise ValueError("type is missing, or no string")
    if isinstance(time_s, bool) or not isinstance(time_s, int | float):
        raise ValueError("timestamp is missing, or no number")
    if not (math.isfinite(time_s) and 0 <= time_s <= LATEST_S):
        raise ValueError(f"timestamp is {time_s}; it must be from 0 to {LATEST_S:g} s")
    if kind in (UNAVAILABLE, AVAILABLE):
        return ExternalEvent(float(time_s), kind, _hosts(raw.get("resources"), hosts), raw)
    if not forward_unknown:
        raise ValueError(
            f"there is no type {kind!r}; there are {UNAVAILABLE} and {AVAILABLE}, and any other "
            "with --forward-unknown-events"
        )
    return ExternalEvent(float(time_s), kind, (), raw)


def _hosts(resources: object, hosts: int) -> tuple[int, ...]:
    if not isinstance(resources, str):
        raise ValueError("resources is missing, or no string such as '0-3 5'")
    return tuple(parse_intervals(resources, hosts))
