"""Sums of the compiled engine."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled engine needs the extra fast")

from hpcosim_compiled.state import TIMED, records
from hpcosim_compiled.sums import pairwise_sum


@pytest.mark.parametrize("count", [0, 1, 7, 8, 127, 128, 129, 800, 4099])
def test_a_sum_has_the_bits_of_numpy(count: int) -> None:
    """The sum of part of an array is that of NumPy to the last bit, for any length."""
    values = np.random.default_rng(count).lognormal(0, 9, count + 3)
    assert pairwise_sum(values, 3, count, records(TIMED, 64)) == values[3:].sum()
