"""What jobs ask for and how long they run: the last values, by user."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from hpcosim_client.arrays import Floats, Ints

OWN = 16
"""Number of last jobs of a user that are remembered."""
COMMON = 512
"""Number of last jobs of all users that are remembered."""
PRIOR = 2.0
"""Number of own jobs that count as much as those of all users, in means."""


class LastOfUsers:
    """Values of the last jobs of each user and of all users.

    Args:
        otherwise: the values before the first job.
    """

    def __init__(self, otherwise: Sequence[float]) -> None:
        width = len(otherwise)
        self._otherwise = np.array(otherwise)
        # The last row, that of index -1, is of new users and stays empty.
        self._own: Floats = np.zeros((16, OWN, width))
        self._count: Ints = np.zeros(16, dtype=np.int64)
        self._common: Floats = np.zeros((COMMON, width))
        self._total = 0

    def add(self, user: int, values: Sequence[float]) -> bool:
        """Add a job; return whether it has the same values as the last job of its user.

        Args:
            user: number of the user.
            values: its values.
        """
        while user >= len(self._count) - 1:
            self._own = np.concatenate([self._own, np.zeros_like(self._own)])
            self._count = np.concatenate([self._count, np.zeros_like(self._count)])
        count = int(self._count[user])
        same = count > 0 and self._own[user, (count - 1) % OWN].tolist() == list(values)
        self._own[user, count % OWN] = values
        self._common[self._total % COMMON] = values
        self._count[user] = count + 1
        self._total += 1
        return same

    def last(self, users: Ints) -> Floats:
        """Return the values of the last job of each user, float64[n, width]."""
        found: Floats = self._own[users, (self._count[users] - 1) % OWN]
        return found

    def drawn(self, generator: Generator, users: Ints) -> Floats:
        """Return the values of jobs of users, float64[n, width].

        Args:
            generator: source of randomness.
            users: numbers of users; -1: a new user, whose jobs are like those of others.
        """
        if not self._total:
            return np.tile(self._otherwise, (len(users), 1))
        place = generator.random(len(users))
        rows = np.minimum(users, len(self._count) - 1)
        count = np.minimum(self._count[rows], OWN)
        found: Floats = self._own[rows, (place * count).astype(np.int64)]
        others = np.flatnonzero(count == 0)
        at = (place[others] * min(self._total, COMMON)).astype(np.int64)
        found[others] = self._common[at]
        return found

    def means(self, users: int) -> Floats:
        """Return means over the last jobs of each user, and of all, float64[users + 1, width]."""
        if not self._total:
            return np.tile(self._otherwise, (users + 1, 1))
        common = self._common[: self._total].mean(0)
        found = np.tile(common, (users + 1, 1))
        known = min(users, len(self._count))
        count = np.minimum(self._count[:known], OWN)[:, None]
        found[:known] = (self._own[:known].sum(1) + PRIOR * common) / (count + PRIOR)
        return found
