"""Amounts with units, as SimGrid's platforms have them: `98.095Mf`, `1.25GBps`, `50us`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_AMOUNT = re.compile(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*\Z")
_SI = {letter: 1000.0**power for power, letter in enumerate(("", "k", "M", "G", "T", "P", "E"))}
_BINARY = {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", start=1)}
_PREFIXES = _SI | _BINARY

FLOPS: Mapping[str, float] = {
    f"{prefix}{unit}": scale for prefix, scale in _PREFIXES.items() for unit in ("f", "flops")
}
"""Of speeds, in flop/s."""

BANDWIDTHS: Mapping[str, float] = {
    f"{prefix}{unit}": scale / size
    for prefix, scale in _PREFIXES.items()
    for unit, size in (("Bps", 1), ("bps", 8))
}
"""Of bandwidths, in bytes/s."""

TIMES: Mapping[str, float] = {
    "ps": 1e-12,
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
}
"""Of latencies, in s."""


def amount(text: str, units: Mapping[str, float], example: str) -> float:
    """Return an amount in the basic unit; one without a unit is in it.

    Args:
        text: a number and a unit.
        units: what each is in the basic one.
        example: what would be right, for the message.

    Raises:
        ValueError: it is none, or not finite.
    """
    found = _AMOUNT.match(text)
    unit = found.group(2) if found else ""
    try:
        number = float(found.group(1)) if found else math.nan
    except ValueError:  # 1.2.3
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is not an amount such as {example}")
    if unit and unit not in units:
        raise ValueError(f"{text!r} has the unit {unit!r}; {example} would be right")
    return number * units[unit] if unit else number
