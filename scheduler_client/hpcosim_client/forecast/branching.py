"""Samples of a self-exciting process, as families of causes and effects."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from hpcosim_client.arrays import Bools, Floats, Ints
from hpcosim_client.forecast.calendar import HOUR_S
from hpcosim_client.forecast.excitation import BETA_PER_S, IS_RHYTHMIC, KERNELS, Excitation

MAX_EVENTS = 500_000
"""Number of events, of all samples, from which no further generation is drawn."""

LEVEL_VARIANCE = 0.25
"""Variance of the factor of mean 1 by which the submissions of a sample are more or fewer, apart
from their children: what the model does not know of the present activity."""


class Events(NamedTuple):
    """Events of several samples, causes before effects.

    Attributes:
        sample: int64[n], number of the sample.
        time_s: float64[n], time after now, s.
        user: int64[n], number of the user; -1: new.
        kernel: int64[n], the kernel through which it was caused; -1: spontaneous.
        parent: int64[n], row of the event that caused it; -1: an event of the past, or none.
        generations: rows of each generation: from, up to (exclusive).
    """

    sample: Ints
    time_s: Floats
    user: Ints
    kernel: Ints
    parent: Ints
    generations: list[tuple[int, int]]


def simulated(process: Excitation, horizon_s: float, samples: int, generator: Generator) -> Events:
    """Return samples of the events within a horizon after `process.now_s`.

    Each event causes a Poisson number of others; the spontaneous ones and those that the past has
    caused come first (the branching representation: Hawkes and Oakes 1974, DOI 10.2307/3212693).
    The rhythm of the week is applied by thinning (Lewis and Shedler 1979, DOI
    10.1002/nav.3800260304). Each sample has a factor of its own for the number of its first events,
    with a gamma distribution of variance `LEVEL_VARIANCE`.
    """
    draw = _Draw(process, horizon_s, samples, generator)
    found = [draw.spontaneous(), draw.of_past()]
    total = sum(len(each.sample) for each in found)
    parents, offset = _joined(found), 0
    whole, generations = [parents], [(0, total)]
    while len(parents.sample) and total < MAX_EVENTS:
        children = draw.children(parents, offset)
        offset = total
        total += len(children.sample)
        generations.append((offset, total))
        whole.append(children)
        parents = children
    return _joined(whole)._replace(generations=generations)


class _Draw:
    def __init__(
        self, process: Excitation, horizon_s: float, samples: int, generator: Generator
    ) -> None:
        self._process, self._horizon_s = process, horizon_s
        self._generator = generator
        # The row of index -1 is that of new users.
        self._weights = np.vstack([process.weights(), process.common_weights])
        self._levels = generator.gamma(1.0 / LEVEL_VARIANCE, LEVEL_VARIANCE, samples)
        hours = process.now_s + np.arange(0.0, horizon_s + HOUR_S, HOUR_S)
        self._most = float(process.rhythm.of(hours).max())
        self._bound = np.where(IS_RHYTHMIC, self._most, 1.0)
        reached = 1.0 - np.exp(-horizon_s * BETA_PER_S)
        self._children_upto = (self._weights * self._bound * reached).cumsum(1)

    def spontaneous(self) -> Events:
        """Return the events without causes."""
        process, generator = self._process, self._generator
        mean = process.spontaneous_per_s * self._most * self._horizon_s * self._levels.sum()
        count = int(generator.poisson(min(mean, MAX_EVENTS)))
        time_s = self._horizon_s * generator.random(count)
        kept = self._kept(time_s, np.full(count, True))
        time_s = time_s[kept]
        edges = np.cumsum(process.user_shares())
        user = np.searchsorted(edges, generator.random(len(time_s)), side="right")
        user[user == process.users] = -1
        none = np.full(len(time_s), -1)
        return self._events(time_s, user, none, none)

    def of_past(self) -> Events:
        """Return the events that events of the past cause."""
        process = self._process
        users = process.users
        means = self._weights[:users] * process.state() * self._bound
        reached = 1.0 - np.exp(-self._horizon_s * BETA_PER_S)
        counts = self._generator.poisson(
            np.minimum(means * reached * self._levels.sum(), MAX_EVENTS)
        )
        user = np.repeat(np.repeat(np.arange(users), KERNELS), counts.ravel())
        kernel = np.repeat(np.tile(np.arange(KERNELS), users), counts.ravel())
        time_s = self._delays(kernel, np.full(len(kernel), self._horizon_s))
        kept = self._kept(time_s, IS_RHYTHMIC[kernel])
        parent = np.full(int(kept.sum()), -1)
        return self._events(time_s[kept], user[kept], kernel[kept], parent)

    def children(self, parents: Events, offset: int) -> Events:
        """Return the events that events cause; `offset`: the row of the first of these.

        Effects are drawn up to one horizon after their cause; those after the end are left out.
        """
        upto = self._children_upto
        counts = self._generator.poisson(upto[parents.user, -1])
        cause = np.repeat(np.arange(len(counts)), counts)
        user = parents.user[cause]
        drawn = self._generator.random(len(cause)) * upto[user, -1]
        kernel = (upto[user] <= drawn[:, None]).sum(1)
        delay_s = self._delays(kernel, np.full(len(kernel), self._horizon_s))
        time_s = parents.time_s[cause] + delay_s
        kept = (time_s <= self._horizon_s) & self._kept(time_s, IS_RHYTHMIC[kernel])
        cause = cause[kept]
        return Events(
            parents.sample[cause], time_s[kept], user[kept], kernel[kept], cause + offset, []
        )

    def _delays(self, kernel: Ints, most_s: Floats) -> Floats:
        """Return delays of effects, exponential up to `most_s`, s."""
        beta = BETA_PER_S[kernel]
        reached = 1.0 - np.exp(-most_s * beta)
        return -np.log1p(-reached * self._generator.random(len(kernel))) / beta

    def _kept(self, time_s: Floats, rhythmic: Bools) -> Bools:
        factor = self._process.rhythm.of(self._process.now_s + time_s)
        kept: Bools = ~rhythmic | (self._generator.random(len(time_s)) * self._most < factor)
        return kept

    def _events(self, time_s: Floats, user: Ints, kernel: Ints, parent: Ints) -> Events:
        edges = self._levels.cumsum()
        sample = np.searchsorted(edges, edges[-1] * self._generator.random(len(time_s)))
        return Events(sample, time_s, user, kernel, parent, [])


def _joined(parts: list[Events]) -> Events:
    sample, time_s, user, kernel, parent = (
        np.concatenate([part[at] for part in parts]) for at in range(5)
    )
    return Events(sample, time_s, user, kernel, parent, [])
