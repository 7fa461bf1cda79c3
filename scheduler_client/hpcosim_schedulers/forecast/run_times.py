"""Run times of jobs as distributions of weighted values, from ended jobs of the same user."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

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


SHORTEST_S = 1.0
UNLIMITED_S = 365 * 86_400.0
"""Requested time from which a job counts as one without, s."""

MOST = (8, 3, 30, 30, 60, 60, 200)
"""Number of last jobs in each history; see `RunTimes`."""
OF_SHARES = (False, False, False, True, True, True, True)
"""Whether a history has shares of the requested times instead of run times."""
HISTORIES = len(MOST)
AT_LIMIT = HISTORIES
"""Index of the source by which a job runs until its limit."""

NARROW, WIDE = 0.2, 1.5
"""Widths of the Laplace densities around past run times, in logarithms of times."""
WIDE_WEIGHT = 0.1
SPREAD: Floats = np.exp(NARROW * np.array([-1.61, -0.51, 0.0, 0.51, 1.61]))
"""Factors by which a run time of the user's own stands for others: the narrow density, at 10, 30,
50, 70 and 90 %."""
ALMOST = 0.999
"""Largest share of the requested time that is not the limit, for values that are spread."""
SPREAD_HISTORIES = 3
"""Number of histories, the first ones, whose values are spread; the others have enough values."""
USER_PRIOR = 10.0
"""Number of ended jobs after which a user's own weights count as much as those of all users."""
GLOBAL_PRIOR = 5.0
FORGETTING_JOBS = 200.0
"""Number of ended jobs of a user after which an old one counts 1/e in the weights."""


class RunTimes:
    """Distributions of run times, learned online from the jobs that end.

    A distribution is a mixture of past run times from seven histories and the requested time:

    0. the last 8 jobs of the user with the same requested time and size,
    1. the last 3 jobs of the user,
    2. the last 30 jobs of the user,
    3. the last 30 jobs of the user, as shares of their requested times,
    4. the last 60 jobs of the group, as shares,
    5. the last 60 jobs of all users with the same requested time, as shares,
    6. the last 200 jobs of all users, as shares,
    7. the requested time itself, or of jobs without one, times from a minute to a day; it counts
       1 / (n + 1) of its weight if history 6 has n values.

    Shares are multiplied by the requested time; jobs without requested times have histories of
    their own, of run times. A job that ends belongs to each history with the probability that the
    history gave to its run time (a Laplace density around each logarithm); the weight of a history
    is the mean of these probabilities over the user's jobs, shrunk towards that over all jobs
    (expectation-maximization for the weights of a mixture, online as in Cappe and Moulines 2009,
    DOI 10.1111/j.1467-9868.2009.00698.x). A history of n values counts n / (n + 1) of its weight
    (Blackwell and MacQueen 1973, DOI 10.1214/aos/1176342372).

    The distribution of a job that runs is the same without the times that have passed
    (`TimeDistribution.after`): a history by which it would have ended loses its weight.

    Example:
        >>> from hpcosim_schedulers.forecast import RunTimes
        >>> times = RunTimes()
        >>> for _ in range(50):
        ...     times.ended("ann", "", 3600.0, 4.0, 600.0)
        >>> times.distribution("ann", "", 3600.0, 4.0).quantiles([0.5]).tolist()
        [600.0]
    """

    def __init__(self) -> None:
        self._histories = [LastValues(most) for most in MOST]
        self._weights: Floats = np.full(HISTORIES + 1, GLOBAL_PRIOR / (HISTORIES + 1))
        self._own: dict[str, Floats] = {}
        self._found: dict[tuple[str, str, float, float], TimeDistribution] = {}

    def ended(self, user: str, group: str, requested_s: float, size: float, run_s: float) -> None:
        """Take a job that has ended.

        Args:
            user: its user; empty: unknown.
            group: the user's group; empty: unknown.
            requested_s: its requested time, s; from `UNLIMITED_S` on: none.
            run_s: its run time, s; of a job that was ended at its limit: `requested_s`.
        """
        self._found.clear()
        run_s = max(run_s, SHORTEST_S)
        keys = _keys(user, group, requested_s, size)
        sources = self._sources(keys, requested_s)
        scores = np.array([_density(values, run_s, requested_s) for values in sources])
        shares = scores * self._mixed(user, sources)
        shares /= shares.sum()
        own = self._own.get(user)
        if own is None:
            own = self._own[user] = np.zeros(HISTORIES + 1)
        kept = 1.0 - 1.0 / FORGETTING_JOBS
        own *= kept
        own += shares
        self._weights *= 1.0 - 0.1 / FORGETTING_JOBS
        self._weights += shares
        share = run_s / requested_s if is_limited(requested_s) and requested_s > 0.0 else run_s
        for history, key, of_shares in zip(self._histories, keys, OF_SHARES, strict=True):
            if key is not None:
                history.add(key, share if of_shares else run_s)

    def distribution(
        self, user: str, group: str, requested_s: float, size: float
    ) -> TimeDistribution:
        """Return the distribution of the run time of a job when it starts.

        No time is longer than `requested_s`; one of `requested_s` means that the job runs until
        its limit. Without limit and without history, the time is from a minute to a day.
        """
        asked = user, group, requested_s, size
        found = self._found.get(asked)
        if found is None:
            found = self._found[asked] = self._distribution(*asked)
        return found

    def _distribution(
        self, user: str, group: str, requested_s: float, size: float
    ) -> TimeDistribution:
        sources = self._sources(_keys(user, group, requested_s, size), requested_s)
        weights = self._mixed(user, sources)
        sources[:SPREAD_HISTORIES] = [
            _spread(values, requested_s) for values in sources[:SPREAD_HISTORIES]
        ]
        present = [
            (values, weight)
            for values, weight in zip(sources, weights.tolist(), strict=True)
            if len(values)
        ]
        values = np.concatenate([values for values, _ in present])
        each = np.concatenate([np.full(len(v), weight / len(v)) for v, weight in present])
        if is_limited(requested_s):
            values = np.minimum(values, requested_s)
        return weighted(values, each)

    def _sources(self, keys: list[Hashable | None], requested_s: float) -> list[Floats]:
        """Return the possible run times by each history, s."""
        limited = is_limited(requested_s)
        found = [
            history.of(key) * requested_s if of_shares and limited else history.of(key)
            for history, key, of_shares in zip(self._histories, keys, OF_SHARES, strict=True)
        ]
        found.append(np.array([max(requested_s, SHORTEST_S)]) if limited else _UNKNOWN_S)
        return found

    def _mixed(self, user: str, sources: list[Floats]) -> Floats:
        """Return the weight of each source for a user, float64[sources]; the sum is 1."""
        count = np.array([len(values) for values in sources[:-1]] + [math.inf])
        trust = np.append(count[:-1] / (count[:-1] + 1.0), 1.0)
        trust[AT_LIMIT] = 1.0 / (1.0 + count[-2])
        common = self._weights / self._weights.sum()
        own = self._own.get(user)
        mixed = common if own is None else own + USER_PRIOR * common
        mixed = mixed * trust
        found: Floats = mixed / mixed.sum()
        return found


def is_limited(requested_s: float) -> bool:
    """Return whether a requested time is one."""
    return requested_s < UNLIMITED_S


_UNKNOWN_S: Floats = np.geomspace(60.0, 86_400.0, 8)


def _keys(user: str, group: str, requested_s: float, size: float) -> list[Hashable | None]:
    limited = is_limited(requested_s)
    return [
        (user, requested_s if limited else None, size),
        user,
        user,
        (user, limited),
        (group, limited) if group else None,
        (requested_s, True) if limited else None,
        limited,
    ]


def _spread(values: Floats, requested_s: float) -> Floats:
    """Return values and others around them, as the density of `_density` has them.

    A job that was ended at its limit stands for none that ends earlier, and one that ended earlier
    for none that is ended at its limit.
    """
    own = values[:, None]
    around = np.minimum(own * SPREAD, np.maximum(own, ALMOST * requested_s))
    return np.where(own < requested_s, around, own).ravel()


def _density(values: Floats, run_s: float, requested_s: float) -> float:
    """Return the mean density of Laplace distributions around values at a run time.

    Ends at the limit and earlier ends are different things: a value says nothing of the other.
    """
    if not len(values):
        return 0.0
    apart = np.abs(np.log(np.maximum(values, SHORTEST_S) / run_s))
    near = (1.0 - WIDE_WEIGHT) / NARROW * np.exp(-apart / NARROW)
    far = WIDE_WEIGHT / WIDE * np.exp(-apart / WIDE)
    if run_s >= requested_s:
        near = np.where(values >= requested_s, (1.0 - WIDE_WEIGHT) / NARROW, 0.0)
    else:
        near = np.where(values < requested_s, near, 0.0)
    return float((near + far).mean())


class TimeDistribution(NamedTuple):
    """A distribution of a time, s.

    Attributes:
        values_s: float64[n], the possible times, ascending.
        upto: float64[n], probability of a time up to each of them; the last is 1.
    """

    values_s: Floats
    upto: Floats

    def quantiles(self, levels: Sequence[float] | Floats) -> Floats:
        """Return the smallest times with at least these probabilities, float64[levels], s."""
        at = np.searchsorted(self.upto, np.asarray(levels) - 1e-12)
        return self.values_s[np.minimum(at, len(self.upto) - 1)]

    def mean_s(self) -> float:
        """Return the mean, s."""
        return float(self.values_s @ np.diff(self.upto, prepend=0.0))

    def probability(self, time_s: float) -> float:
        """Return the probability of at most a time."""
        at = int(np.searchsorted(self.values_s, time_s, side="right"))
        return float(self.upto[at - 1]) if at else 0.0

    def after(self, elapsed_s: float) -> TimeDistribution:
        """Return the distribution given that the time is longer than `elapsed_s`, s.

        If all values are shorter, the time left is as long as that which has passed, times 1/4,
        1 or 4 with equal probabilities.
        """
        first = int(np.searchsorted(self.values_s, elapsed_s, side="right"))
        if not first:
            return self
        passed = float(self.upto[first - 1])
        if first == len(self.upto) or passed >= 1.0 - 1e-9:
            left_s = max(elapsed_s, 1.0) * np.array([0.25, 1.0, 4.0])
            return TimeDistribution(elapsed_s + left_s, np.array([1.0, 2.0, 3.0]) / 3.0)
        return TimeDistribution(
            self.values_s[first:], (self.upto[first:] - passed) / (self.upto[-1] - passed)
        )

    def resampled(self, generator: Generator) -> TimeDistribution:
        """Return the same times with random probabilities.

        The spread between such distributions is what a short history leaves unknown (the Bayesian
        bootstrap: Rubin 1981, DOI 10.1214/aos/1176345338). The probabilities p are drawn from a
        Dirichlet distribution with parameters n p, where n = 1 / sum of p^2 is the effective number
        of values.
        """
        share = np.diff(self.upto, prepend=0.0)
        weights = generator.gamma(share / (share @ share)) + 1e-12
        upto = weights.cumsum()
        return TimeDistribution(self.values_s, upto / upto[-1])

    def drawn_s(self, generator: Generator, samples: int) -> Floats:
        """Return random times, float64[samples], s."""
        return self.quantiles(generator.random(samples))


def weighted(values_s: Floats, weights: Floats) -> TimeDistribution:
    """Return the distribution of values with weights, in any order; the weights are above 0."""
    order = values_s.argsort(kind="stable")
    upto = weights[order].cumsum()
    return TimeDistribution(values_s[order], upto / upto[-1])
