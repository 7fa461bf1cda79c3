"""Advice about numbers that are written with a unit, such as `run_s: 10m`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?"
NUMBER_WITH_UNIT = re.compile(rf"\s*({NUMBER})\s*([a-z/%]+)\s*")


class Unit(NamedTuple):
    """The unit of all fields with one suffix.

    Attributes:
        name: as messages show it.
    """

    name: str
    factors: Mapping[str, float]


SECONDS = Unit(
    "seconds",
    {
        "ms": 1e-3,
        "s": 1,
        "sec": 1,
        "m": 60,
        "min": 60,
        "h": 3600,
        "hr": 3600,
        "d": 86400,
        "day": 86400,
        "days": 86400,
        "w": 604800,
    },
)
UNITS: Mapping[str, Unit] = {
    "_s": SECONDS,
    "_w": Unit("W", {"mw": 1e6, "kw": 1e3, "w": 1}),
    "_ghz": Unit("GHz", {"ghz": 1, "mhz": 1e-3}),
    "_mb": Unit("MB", {"kb": 1e-3, "mb": 1, "gb": 1e3, "tb": 1e6}),
    "_mbps": Unit("MB/s", {"mb/s": 1, "mbps": 1, "gb/s": 1e3, "gbps": 1e3}),
    "_j": Unit("J", {"j": 1, "kj": 1e3, "mj": 1e6, "kwh": 3.6e6}),
    "_per_min": Unit("1/min", {"/min": 1, "/s": 60, "/h": 1 / 60}),
}
"""Units by the suffix of the fields that have them."""


def unit_hint(field: str, value: object) -> str:
    """Return a message about a number with a unit; empty: the value is no such text."""
    found = NUMBER_WITH_UNIT.fullmatch(value.lower()) if isinstance(value, str) else None
    if found is None:
        return ""
    unit = unit_of(field)
    if unit is None:
        return f"expected a number without a unit, got {value!r}"
    expected = f"expected a number in {unit.name}, without the unit, got {value!r}"
    factor = unit.factors.get(found[2])
    return expected if factor is None else f"{expected}; write {float(found[1]) * factor:g}"


def unit_of(field: str) -> Unit | None:
    """Return the unit of a field by its suffix; None: the field has no known unit."""
    name = re.sub(r"(\[[0-9]+\])+$", "", field)
    suffix = max((each for each in UNITS if name.endswith(each)), key=len, default=None)
    return None if suffix is None else UNITS[suffix]
