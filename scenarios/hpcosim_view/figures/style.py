"""Colours, units and steps that figures share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_view.errors import FigureError

Floats = NDArray[np.float64]

# Colours of Okabe and Ito, distinguishable with colour vision deficiency.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")


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
    return next(unit for unit in units if largest >= unit.least)


def with_unit(value: float, units: Sequence[Unit]) -> str:
    """Return a value >= 0 with its unit and at least three significant digits: `1.08 MWh`."""
    unit = unit_for(value, units)
    number = value / unit.size
    digits = 0 if number >= 99.95 else 1 if number >= 9.995 else 2
    return f"{number:,.{digits}f} {unit.name}"


def drawing() -> tuple[Any, Any]:
    """Return `matplotlib` and `matplotlib.pyplot`, configured to draw into files.

    Raises:
        FigureError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise FigureError("figures need matplotlib: pip install 'hpcosim[plot]'") from None
    return mpl, pyplot


def steps(times_s: Floats, changes: Floats) -> tuple[Floats, Floats]:
    """Return the cumulative sum of changes as a step function.

    Args:
        times_s: time of each change, s.
        changes: the changes.

    Returns:
        The times of the steps, s, in ascending order, and the value from each time on.
    """
    order = np.argsort(times_s, kind="stable")
    at_s, first = np.unique(times_s[order], return_index=True)
    return at_s, np.cumsum(np.add.reduceat(changes[order], first))
