"""Sums with the bits of NumPy, which adds pairwise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcosim_compiled.compiler import compiled_apart
from hpcosim_compiled.state import Records

_BLOCK = 128
"""Most values that are added in one loop, with eight sums side by side."""


@compiled_apart
def _block(values: NDArray[np.float64], first: int, count: int) -> float:
    """Return the sum of at most `_BLOCK` values."""
    total, end = 0.0, first
    if count >= 8:
        end = first + count - count % 8
        a, b, c, d = values[first], values[first + 1], values[first + 2], values[first + 3]
        e, f, g, h = values[first + 4], values[first + 5], values[first + 6], values[first + 7]
        for place in range(first + 8, end, 8):
            a += values[place]
            b += values[place + 1]
            c += values[place + 2]
            d += values[place + 3]
            e += values[place + 4]
            f += values[place + 5]
            g += values[place + 6]
            h += values[place + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for place in range(end, first + count):
        total += values[place]
    return total


@compiled_apart
def pairwise_sum(values: NDArray[np.float64], first: int, count: int, stack: Records) -> float:
    """Return `values[first : first + count].sum()` for contiguous values.

    Source: NumPy, `numpy/_core/src/umath/loops_utils.h.src`, which describes the order; Higham
    1993, "The accuracy of floating point summation", section 2. It is no recursion, because Numba
    cannot cache a function that calls itself.

    Args:
        stack: space for some `TIMED`: a second half that is left (its `number` of values), or the
            sum `at_s` of a first half (`number` is 0).
    """
    size = 0
    while True:
        while count > _BLOCK:
            half = count // 2
            half -= half % 8
            stack[size].number = count - half
            size += 1
            count = half
        total = _block(values, first, count)
        first += count
        while size > 0 and stack[size - 1].number == 0:
            size -= 1
            total = stack[size].at_s + total
        if size == 0:
            return total
        count = stack[size - 1].number
        stack[size - 1].at_s, stack[size - 1].number = total, 0
