"""Parser of amounts with units in SimGrid platforms: `98.095Mf`, `1.25GBps`, `50us`."""

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
"""Units of speed and their factors to flop/s."""

BANDWIDTHS: Mapping[str, float] = {
    f"{prefix}{unit}": scale / size
    for prefix, scale in _PREFIXES.items()
    for unit, size in (("Bps", 1), ("bps", 8))
}
"""Units of bandwidth and their factors to bytes/s."""

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
"""Units of time and their factors to s."""


def amount(text: str, units: Mapping[str, float], example: str) -> float:
    """Return an amount in its base unit.

    Args:
        text: a number with or without a unit; default: the base unit.
        units: factor of each unit to the base unit.
        example: a valid amount, for the error message.

    Raises:
        ValueError: the text is not a finite amount, or its unit is unknown.
    """
    found = _AMOUNT.match(text)
    unit = found.group(2) if found else ""
    try:
        number = float(found.group(1)) if found else math.nan
    except ValueError:  # 1.2.3
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"expected an amount such as {example}, got {text!r}")
    if unit and unit not in units:
        raise ValueError(f"expected an amount such as {example}, got {text!r} with unit {unit!r}")
    return number * units[unit] if unit else number
