"""Units of times, powers and energies that suit their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Unit(NamedTuple):
    """A unit of an axis or a title.

    Attributes:
        name: its symbol.
        size: its size in the unit of the data.
        least: smallest maximum of the data for which it is used, in the unit of the data.
    """

    name: str
    size: float
    least: float


TIME_UNITS = (
    Unit("days", 86400.0, 3 * 86400.0),
    Unit("hours", 3600.0, 3 * 3600.0),
    Unit("seconds", 1.0, 0.0),
)
"""Units of durations in s."""

POWER_UNITS = (Unit("MW", 1e6, 1e6), Unit("kW", 1e3, 1e3), Unit("W", 1.0, 0.0))
"""Units of powers in W."""

ENERGY_UNITS = (
    Unit("GWh", 3.6e12, 3.6e12),
    Unit("MWh", 3.6e9, 3.6e9),
    Unit("kWh", 3.6e6, 3.6e6),
    Unit("Wh", 3.6e3, 0.0),
)
"""Units of energies in J."""


def unit_for(largest: float, units: Sequence[Unit]) -> Unit:
    """Return the unit for values of which `largest` is the largest."""
    # The smallest unit, too, for a sum that rounding made negative.
    return next((unit for unit in units if largest >= unit.least), units[-1])


def with_unit(value: float, units: Sequence[Unit]) -> str:
    """Return a value >= 0 with its unit and at least three significant digits: `1.08 MWh`."""
    unit = unit_for(value, units)
    number = value / unit.size
    digits = 0 if number >= 99.95 else 1 if number >= 9.995 else 2
    return f"{number:,.{digits}f} {unit.name}"
