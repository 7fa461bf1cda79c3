"""The last values of each of many keys."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from hpcosim_client.arrays import Floats


class LastValues:
    """The last `most` values of each key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[Hashable, Floats] = {}
        self._count: dict[Hashable, int] = {}

    def add(self, key: Hashable, value: float) -> None:
        """Add a value; the oldest is dropped."""
        count = self._count.get(key, 0)
        values = self._values.get(key)
        if values is None:
            values = self._values[key] = np.empty(min(4, self._most))
        elif count == len(values) < self._most:
            grown = np.empty(min(2 * count, self._most))
            grown[:count] = values
            values = self._values[key] = grown
        values[count % self._most] = value
        self._count[key] = count + 1

    def of(self, key: Hashable) -> Floats:
        """Return the values of a key, in any order; do not change them."""
        values = self._values.get(key)
        return _NONE if values is None else values[: self._count[key]]


_NONE: Floats = np.empty(0)
