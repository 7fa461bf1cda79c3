"""Values as Slurm prints them: nothing, durations, trackable resources, node lists, devices."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from hpcosim_protocol.errors import HostListError
from hpcosim_protocol.hosts import expand
from hpcosim_slurm.errors import ReadingError
from hpcosim_workloads.logs import quantities

MAX_DEVICES = 1024
"""Most devices of a name on a node. What has more, such as bandwidth, is no device."""

_NOTHING = frozenset(("", "(null)", "N/A", "n/a", "None", "NONE", "Unknown", "None assigned"))
_UNLIMITED = frozenset(("UNLIMITED", "INFINITE", "NOT_SET", "INVALID", "PARTITION_LIMIT"))

Value = TypeVar("Value")


def text_of(value: str) -> str:
    """Return a text; empty if Slurm prints that there is none, such as `(null)` or `N/A`."""
    return "" if value in _NOTHING else value


def number_of(value: str) -> int:
    """Return a number; 0 if there is none.

    Raises:
        ReadingError: the text is no number.
    """
    return 0 if value in _NOTHING else _read(quantities.count_of, value)


def memory_mb(value: str) -> float:
    """Return an amount of memory such as `4000`, `80M` or `1.50G`, MiB.

    Raises:
        ReadingError: the text has another form.
    """
    return _read(quantities.memory_of, value).mb


def time_of(value: str) -> float | None:
    """Return a Unix time, s; None if there is none.

    Raises:
        ReadingError: the text has another form.
    """
    if value in _NOTHING:
        return None
    if not re.fullmatch(r"\d{1,12}", value):
        raise ReadingError(f"expected a Unix time, got {value[:80]!r}")
    return float(value)


def duration_s(value: str) -> float | None:
    """Return a duration such as `10:00`, `1:00:00` or `2-12:00:00`, s; None: unlimited or none.

    Raises:
        ReadingError: the text has another form.
    """
    if value in _NOTHING or value.upper() in _UNLIMITED:
        return None
    return _read(quantities.duration_s, value)


def tres_of(value: str) -> dict[str, float]:
    """Return trackable resources such as `cpu=8,mem=80M,node=2` by name; memory in MiB.

    Raises:
        ReadingError: the text has another form.
    """
    return {} if value in _NOTHING else _read(quantities.tres_of, value)


def nodes_of(value: str) -> tuple[str, ...]:
    """Return the names of a node list such as `node[0-3,7]`.

    Raises:
        ReadingError: the text is no node list.
    """
    if value in _NOTHING:
        return ()
    try:
        return tuple(expand(value))
    except HostListError as error:
        raise ReadingError(f"node list: {error}") from None


def devices_of(value: str) -> dict[str, int]:
    """Return numbers of devices by name with type, such as `{"gpu:a100": 4}`.

    Resources that jobs do not consume, and those of more than `MAX_DEVICES`, are left out.

    Raises:
        ReadingError: the text has another form.
    """
    if value in _NOTHING:
        return {}
    consumed = (each for each in value.split(",") if ":no_consume" not in each)
    found = _read(quantities.device_counts, ",".join(consumed))
    return {
        name: count
        for name, count in found.items()
        if name != "none" and 0 < count <= MAX_DEVICES  # of `sbatch --gres=none`
    }


def _read(read: Callable[[str], Value], text: str) -> Value:
    """Return what a reader of `quantities` returns; its errors are `ReadingError`."""
    try:
        return read(text)
    except ValueError as error:
        raise ReadingError(str(error)) from None
