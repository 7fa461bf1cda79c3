"""Quantities as Slurm writes them: memory, durations, lists of resources (TRES) and devices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from hpcosim_protocol.errors import HpcosimError

MB_BY_UNIT: Mapping[str, float] = {
    "": 1.0,
    "K": 2.0**-10,
    "M": 1.0,
    "G": 2.0**10,
    "T": 2.0**20,
    "P": 2.0**30,
    "E": 2.0**40,
}
"""Megabytes (2^20 bytes, as Slurm counts) by suffix; without a suffix Slurm means megabytes."""

UNLIMITED = frozenset(("unlimited", "infinite", "infinity", "-1"))
UNKNOWN = frozenset(("", "none", "unknown", "partition_limit", "invalid", "n/a", "none assigned"))

MOST_S = 1e12
"""Longest duration, s. Longer ones are taken for damaged text."""

_MEMORY = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([KMGTPE]?)B?([cn]?)", re.IGNORECASE)
_DURATION = re.compile(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9})(?:\.\d{1,9})?)?")
_DEVICE = re.compile(  # an optional prefix, a name, an optional type, an optional count
    r"(?:gres[:/])?([^:=\s]+)(?:[:=](?!\d+[KMG]?$)([^:=\s]+))?(?:[:=](\d{1,15}[KMG]?))?"
)
_COUNT = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([KMG]?)", re.IGNORECASE)
_COUNT_BY_UNIT: Mapping[str, int] = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}

Per = Literal["job", "core", "node"]


class FieldError(HpcosimError, ValueError):
    """A text has another form than expected. The caller adds the place."""


class Memory(NamedTuple):
    """An amount of memory.

    Attributes:
        mb: the amount, MB.
        per: what it is for. Slurm before 21.08 appends `c` (core) or `n` (node).
    """

    mb: float
    per: Per = "job"


def memory_of(text: str) -> Memory:
    """Return an amount of memory such as `33600M`, `262.50G`, `2800Mc` or `4Gn`.

    Raises:
        FieldError: the text has another form.
    """
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        raise FieldError(f"expected memory such as 2800M, 4.5G or 2800Mc, got {shown(text)}")
    number, unit, per = match.groups()
    kinds: Mapping[str, Per] = {"": "job", "c": "core", "n": "node"}
    return Memory(float(number) * MB_BY_UNIT[unit.upper()], kinds[per.lower()])


def duration_s(text: str) -> float | None:
    """Return a duration in seconds; None: unlimited.

    The forms are those of `sbatch --time`: `MINUTES`, `MINUTES:SECONDS`, `HOURS:MINUTES:SECONDS`,
    `DAYS-HOURS`, `DAYS-HOURS:MINUTES`, `DAYS-HOURS:MINUTES:SECONDS`; or `UNLIMITED`, `INFINITE`.

    Raises:
        FieldError: the text has another form.
    """
    text = text.strip()
    if text.lower() in UNLIMITED:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise FieldError(
            f"expected a duration such as 30, 12:30:00 or 2-12:00:00, or UNLIMITED, "
            f"got {shown(text)}"
        )
    days, *rest = match.groups()
    parts = [int(part) for part in rest if part is not None]
    if days is not None:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    else:
        hours, minutes, seconds = {
            1: (0, parts[0], 0),
            2: (0, *parts),
            3: tuple(parts),
        }[len(parts)]
    total_s = float(int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds)
    if total_s > MOST_S:
        raise FieldError(f"expected a duration up to {MOST_S:g} s, got {shown(text)}")
    return total_s


def tres_of(text: str) -> dict[str, float]:
    """Return trackable resources such as `cpu=12,mem=33600M,node=1,gres/gpu:a100=2`.

    Memory is in MB. A resource without a type (`gres/gpu=2`) that merely sums up its types
    (`gres/gpu:a100=2`) is left out.

    Raises:
        FieldError: an entry has another form.
    """
    found: dict[str, float] = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = entry.rpartition("=")
        if not equals or not name:
            raise FieldError(f"expected resources such as cpu=4,mem=8G, got {shown(entry)}")
        found[name] = memory_of(value).mb if name in ("mem", "vmem") else _amount(value, entry)
    types = {name.partition(":")[0] for name in found if name.startswith("gres/") and ":" in name}
    return {name: value for name, value in found.items() if name not in types}


def device_counts(text: str) -> dict[str, int]:
    """Return the number of devices by name with type, of a node or of a job.

    The forms are those of Slurm 21.08 to 24.05: `gpu:2`, `gpu:a100:4(S:0-1)`, `gres:gpu:1`,
    `gres/gpu:1`, `gres/gpu=2`, `gpu` (one), `tape:no_consume:3`.

    Example:
        >>> device_counts("gpu:a100:4(S:0-1),gpu:2,shard:8")
        {'gpu:a100': 4, 'gpu': 2, 'shard': 8}

    Raises:
        FieldError: an entry has another form.
    """
    found: dict[str, int] = {}
    for entry in re.sub(r"\([^)]*\)|:no_consume", "", text).split(","):
        if not (entry := entry.strip()):
            continue
        match = _DEVICE.fullmatch(entry)
        if match is None:
            raise FieldError(f"expected devices such as gpu:2 or gpu:a100:4, got {shown(entry)}")
        name, kind, count = match.groups()
        key = f"{name}:{kind}" if kind else name
        found[key] = found.get(key, 0) + (1 if count is None else count_of(count))
    return found


def count_of(text: str) -> int:
    """Return a count, such as the `4` of `NNodes`; also `2K` and `4G` as some versions print.

    Raises:
        FieldError: the text has another form.
    """
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise FieldError(f"expected a number, got {shown(text)}")
    return int(float(match[1]) * _COUNT_BY_UNIT[match[2].upper()])


def is_unknown(text: str) -> bool:
    """Return whether a field states nothing: empty, `None`, `Unknown`, `None assigned`, ..."""
    return text.strip().lower() in UNKNOWN


def shown(text: str) -> str:
    """Return a text of a file as a message quotes it, shortened."""
    quoted = repr(text)
    return quoted if len(quoted) <= 80 else f"{quoted[:76]}...{quoted[-1]}"


def _amount(value: str, entry: str) -> float:
    """Return a number with an optional suffix K, M, G, ... of powers of 1024."""
    match = _MEMORY.fullmatch(value)
    if match is None or match[3]:
        raise FieldError(f"expected resources such as cpu=4,mem=8G, got {shown(entry)}")
    unit = match[2].upper()
    factor = 1.0 if not unit else MB_BY_UNIT[unit] * 2.0**20
    return float(match[1]) * factor
