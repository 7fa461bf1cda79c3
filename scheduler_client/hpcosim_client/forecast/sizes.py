"""What jobs ask for: sizes and requested times of the last jobs, by user."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from hpcosim_client.arrays import Floats, Ints

OWN = 16
"""Number of last jobs of a user that are remembered."""
COMMON = 512
"""Number of last jobs of all users that are remembered."""
PRIOR = 2.0
"""Number of own jobs that count as much as those of all users, in means."""


class LastRequests:
    """Sizes and requested times of the last jobs of each user and of all users."""

    def __init__(self) -> None:
        self._own: Floats = np.zeros((16, OWN, 2))
        self._count: Ints = np.zeros(16, dtype=np.int64)
        self._common: Floats = np.zeros((COMMON, 2))
        self._total = 0

    def add(self, user: int, size: float, requested_s: float) -> bool:
        """Add a job; return whether it asks for the same as the last job of its user.

        Args:
            user: number of the user; at most one above the largest so far.
            size: number of cores or nodes.
            requested_s: requested time, s.
        """
        if user == len(self._count):
            self._own = np.concatenate([self._own, np.zeros_like(self._own)])
            self._count = np.concatenate([self._count, np.zeros_like(self._count)])
        count = int(self._count[user])
        job = (size, requested_s)
        same = count > 0 and tuple(self._own[user, (count - 1) % OWN].tolist()) == job
        self._own[user, count % OWN] = job
        self._common[self._total % COMMON] = job
        self._count[user] = count + 1
        self._total += 1
        return same

    def last(self, users: Ints) -> Floats:
        """Return size and requested time of the last job of each user, float64[n, 2]."""
        found: Floats = self._own[users, (self._count[users] - 1) % OWN]
        return found

    def drawn(self, generator: Generator, users: Ints) -> Floats:
        """Return size and requested time of jobs of users, float64[n, 2].

        Args:
            generator: source of randomness.
            users: numbers of users; -1: a new user, who asks for the same as others.
        """
        place = generator.random((2, len(users)))
        common = (place[0] * min(self._total, COMMON)).astype(np.int64)
        found: Floats = self._common[common]
        known = users >= 0
        own = users[known]
        at = (place[1, known] * np.minimum(self._count[own], OWN)).astype(np.int64)
        found[known] = self._own[own, at]
        return found

    def mean_sizes(self, users: int) -> tuple[Floats, float]:
        """Return the mean size of the last jobs of each user, and of all users."""
        common = float(self._common[: self._total, 0].mean()) if self._total else 1.0
        count = np.minimum(self._count[:users], OWN)
        own = self._own[:users, :, 0].sum(1)
        means: Floats = (own + PRIOR * common) / (count + PRIOR)
        return means, common
