"""Sets of nodes as integers, whose bit `n` is set if the set contains node `n`.

The backfill plan intersects many sets; integers are faster than arrays for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, reduce
from operator import or_

import numpy as np

from hpcosim_client.job import Bools

NodeSet = int
"""A set of nodes."""


def set_of(nodes: Iterable[int]) -> NodeSet:
    """Return the set of the given node numbers."""
    return reduce(or_, map((1).__lshift__, nodes), 0)


def set_of_mask(mask: Bools) -> NodeSet:
    """Return the set of the nodes whose element of a bool[nodes] is true."""
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


@lru_cache(maxsize=4096)
def mask_of(nodes: NodeSet, count: int) -> Bools:
    """Return bool[nodes], read-only: whether a set contains each of `count` nodes."""
    data = np.frombuffer(nodes.to_bytes((count + 7) // 8, "little"), dtype=np.uint8)
    mask = np.unpackbits(data, count=count, bitorder="little").view(np.bool_)
    mask.setflags(write=False)
    return mask
