"""Values as Slurm prints them: nothing, durations, trackable resources, node lists, devices."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hpcosim_protocol.errors import HostListError
from hpcosim_protocol.hosts import expand
from hpcosim_slurm.errors import ReadingError

_NOTHING = frozenset(("", "(null)", "N/A", "n/a", "None", "NONE", "Unknown", "None assigned"))
_UNLIMITED = frozenset(("UNLIMITED", "INFINITE", "NOT_SET", "INVALID", "PARTITION_LIMIT"))
_DURATION = re.compile(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})")
_AMOUNT = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)([KMGTPE]?)")
_DEVICE = re.compile(  # an optional prefix, a name, an optional type, an optional count
    r"(?:gres[:/])?([^:=\s]+)(?:[:=](?!\d+[KMG]?$)[^:=\s]+)?(?:[:=](\d{1,9}[KMG]?))?"
)
_SIZES: Mapping[str, float] = {
    unit: 1024.0 ** (power - 1) for power, unit in enumerate(["K", "M", "G", "T", "P", "E"])
}
"""MiB by suffix. An amount without a suffix is in MiB."""


def text_of(value: str) -> str:
    """Return a text; empty if Slurm prints that there is none, such as `(null)` or `N/A`."""
    return "" if value in _NOTHING else value


def number_of(value: str) -> int:
    """Return a number; 0 if there is none.

    Raises:
        ReadingError: the text is no number.
    """
    if value in _NOTHING:
        return 0
    return int(amount_of(value, {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}))


def memory_mb(value: str) -> float:
    """Return an amount of memory such as `4000`, `80M` or `1.50G`, MiB.

    Raises:
        ReadingError: the text has another form.
    """
    return amount_of(value, {"": 1.0, **_SIZES})


def amount_of(value: str, factors: Mapping[str, float]) -> float:
    """Return a number with a suffix.

    Args:
        value: such as `1.5G`.
        factors: factor of each suffix.

    Raises:
        ReadingError: the text has another form.
    """
    found = _AMOUNT.fullmatch(value)
    if found is None or found[2] not in factors:
        raise ReadingError(f"expected a number such as 4000 or 1.5G, got {value[:80]!r}")
    return float(found[1]) * factors[found[2]]


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
    found = _DURATION.fullmatch(value)
    if found is None:
        raise ReadingError(f"expected a duration such as 2-12:00:00, got {value[:80]!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(days * 86400 + hours * 3600 + minutes * 60 + seconds)


def tres_of(value: str) -> dict[str, str]:
    """Return trackable resources such as `cpu=8,mem=80M,node=2`, as text by name."""
    if value in _NOTHING:
        return {}
    return {name: amount for name, _, amount in (each.partition("=") for each in value.split(","))}


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
    """Return numbers of devices by name, without their types.

    The forms are those of Slurm 21.08 to 24.05: `gpu:2`, `gpu:a100:4(S:0-1)`, `gres:gpu:1`,
    `gres/gpu:1`, `gres/gpu=2`, `gpu` (one).

    Raises:
        ReadingError: the text has another form.
    """
    if value in _NOTHING:
        return {}
    counts: dict[str, int] = {}
    for each in re.sub(r"\([^)]*\)", "", value).split(","):
        found = _DEVICE.fullmatch(each)
        if found is None:
            raise ReadingError(f"expected devices such as gpu:2, got {each[:80]!r}")
        name, count = found.groups()
        if name != "none":  # of `sbatch --gres=none`
            counts[name] = counts.get(name, 0) + (1 if count is None else number_of(count))
    return counts
