"""Measures of samples."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation; 0 for a single value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def change(value: float, base: float) -> float:
    """Return the relative difference of a value to a base, %; NaN if the base is 0."""
    return 100 * (value / base - 1) if base else float("nan")
