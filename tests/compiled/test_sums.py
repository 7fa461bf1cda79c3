"""Sums of the compiled engine."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("numba", reason="the compiled engine needs the extra fast")

from hpcosim_compiled.compiler import entry
from hpcosim_compiled.state import TIMED, Records, records
from hpcosim_compiled.sums import pairwise_sum


@entry
def sum_of(values: NDArray[np.float64], first: int, count: int, space: Records) -> float:
    """Return what compiled code gets."""
    return pairwise_sum(values, first, count, space)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 127, 128, 129, 800, 4099])
def test_a_sum_has_the_bits_of_numpy(count: int) -> None:
    """The sum of part of an array is that of NumPy to the last bit, for any length."""
    values = np.random.default_rng(count).lognormal(0, 9, count + 3)
    assert sum_of(values, 3, count, records(TIMED, 64)) == values[3:].sum()
