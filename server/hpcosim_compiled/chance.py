"""Random numbers of a policy: those of NumPy's generator PCG64, from raw values drawn beforehand.

See `_generator.pyx`, `pcg64.h` and `distributions.c` of NumPy: `random` and `integers`.
"""

from __future__ import annotations

import numpy as np

from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.state import Processors, State

HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)
UNUSED_BITS = np.uint64(11)
UNIT = 1.0 / 2**53


@compiled
def _raw(state: State, own: Processors) -> np.uint64:
    value = own.drawn[state.g[0].drawn]
    state.g[0].drawn += 1
    return value


@compiled
def uniform(state: State, own: Processors) -> float:
    """Return `Generator.random()`."""
    return np.float64(_raw(state, own) >> UNUSED_BITS) * UNIT


@compiled
def below(state: State, own: Processors, limit: int) -> np.int64:
    """Return `Generator.integers(limit)`, of a limit below 2**32 (Lemire 2019)."""
    if limit == 1:
        return np.int64(0)
    size = np.uint64(limit)
    product = _half(state, own) * size
    if product & LOW_HALF < size:
        least = (LOW_HALF - size + np.uint64(1)) % size
        while product & LOW_HALF < least:
            product = _half(state, own) * size
    return np.int64(product >> HALF)


@compiled
def _half(state: State, own: Processors) -> np.uint64:
    """Return 32 bits: the lower half of a new value, then its upper half."""
    g = state.g[0]
    if g.has_half:
        g.has_half = False
        return g.half
    value = _raw(state, own)
    g.half, g.has_half = value >> HALF, True
    return value & LOW_HALF
