"""Texts of many sets of integers at once, as cells of CSV files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer]

MOST_LISTED = 2**16
"""Number below which each text is made once, whether it occurs or not."""

ZERO, DASH = b"0-"


def lists(values: Ints, first: NDArray[np.int64]) -> list[str]:
    """Return sets of integers, separated by spaces.

    Args:
        values: the integers of all sets, none below 0, one set after the other.
        first: int64[sets], index of the first integer of each set.
    """
    return _lists(values, first, np.zeros(len(values), np.bool_))


def intervals(values: Ints, first: NDArray[np.int64]) -> list[str]:
    """Return sets of integers as intervals, such as `0-3 7`.

    Args:
        values: the integers of all sets, none below 0, one set after the other, ascending in each.
        first: int64[sets], index of the first integer of each set.
    """
    begins = np.append(True, values[1:] != values[:-1] + 1)[: len(values)]
    begins[first[first < len(values)]] = True
    ends = np.append(begins[1:], True)[: len(values)]
    kept = np.flatnonzero(begins | ends)
    return _lists(values[kept], np.searchsorted(kept, first), ~ends[kept])


def _lists(values: Ints, first: NDArray[np.int64], dashed: NDArray[np.bool_]) -> list[str]:
    """Return sets of integers, separated by spaces, or by a dash after those that are `dashed`."""
    if not len(values):
        return [""] * len(first)
    if values.max() < MOST_LISTED:
        known, which = np.arange(values.max() + 1), values
    else:
        known, which = np.unique(values, return_inverse=True)
    shown = _characters(known)
    characters = shown[which]
    characters[dashed, -1] = DASH
    text = characters[characters != 0].tobytes().decode("ascii")
    bounds = np.append(0, np.cumsum(np.count_nonzero(shown, axis=1)[which]))
    begin = bounds[first]
    end = np.append(begin[1:], bounds[-1])[: len(begin)] - 1  # without the last space
    cuts = zip(begin.tolist(), np.maximum(begin, end).tolist(), strict=True)
    return [text[first:last] for first, last in cuts]


def _characters(values: Ints) -> NDArray[np.uint8]:
    """Return the characters of integers and a space, each a row that begins with zeros."""
    digits = len(str(int(values.max())))
    shown = np.zeros((len(values), digits + 1), np.uint8)
    shown[:, digits] = ord(" ")
    rest = values.astype(np.int64)
    for place in range(digits - 1, -1, -1):
        further = (rest > 0) | (place == digits - 1)
        shown[further, place] = rest[further] % 10 + ZERO
        rest //= 10
    return shown
