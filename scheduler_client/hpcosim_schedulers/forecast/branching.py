"""Samples of a self-exciting process, as families of causes and effects."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from hpcosim_client.arrays import Bools, Floats, Ints
from hpcosim_schedulers.forecast.calendar import BINS, HOUR_S
from hpcosim_schedulers.forecast.excitation import (
    BETA_PER_S,
    IS_RHYTHMIC,
    KERNELS,
    OF_ENDS,
    Excitation,
)
from hpcosim_schedulers.forecast.last_values import LastOfUsers

MAX_EVENTS = 500_000
"""Number of events, of all samples, from which no further generation is drawn."""

LEVEL_VARIANCE = 0.25
"""Variance of the factor of mean 1 by which the submissions of a sample are more or fewer, apart
from their children: what the model does not know of the present activity."""


class Ends(NamedTuple):
    """The ends of running jobs in several samples.

    Attributes:
        user: int64[jobs], number of the user of each job.
        after_s: float64[samples, jobs], time after now, s.
    """

    user: Ints
    after_s: Floats


class Events(NamedTuple):
    """Submissions of several samples, causes before effects.

    Attributes:
        sample: int64[n], number of the sample.
        time_s: float64[n], time after now, s.
        user: int64[n], number of the user; -1: new.
        kernel: int64[n], the kernel through which it was caused; -1: spontaneous.
        parent: int64[n], row of the submission that caused it, itself or by the end of its job; -1:
            a job that is known now, or none.
        run_s: float64[n], run time of its job, s; infinity: unknown.
        generations: rows of each generation: from, up to (exclusive).
    """

    sample: Ints
    time_s: Floats
    user: Ints
    kernel: Ints
    parent: Ints
    run_s: Floats
    generations: list[tuple[int, int]]


def simulated(
    process: Excitation,
    runs_s: LastOfUsers,
    ends: Ends,
    horizon_s: float,
    samples: int,
    generator: Generator,
) -> Events:
    """Return samples of the submissions within a horizon after `process.now_s`.

    Each submission and each end of a job causes a Poisson number of submissions; the spontaneous
    ones and those that what is known now has caused come first (the branching representation:
    Hawkes and Oakes 1974, DOI 10.2307/3212693). The rhythm of the week is applied by thinning
    (Lewis and Shedler 1979, DOI 10.1002/nav.3800260304). Each sample has a factor of its own for
    the number of its first submissions, with a gamma distribution of variance `LEVEL_VARIANCE`.

    A job starts at its submission: waits, also of jobs that wait now, are left out.

    Args:
        process: the process, advanced to the present.
        runs_s: the run times of the last jobs.
        ends: the ends of the running jobs, in as many samples.
        horizon_s: duration, s.
        samples: number of samples.
        generator: source of randomness.
    """
    draw = _Draw(process, runs_s, horizon_s, samples, generator)
    found = [draw.spontaneous(), draw.of_past(), draw.of_ends(ends)]
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
        self,
        process: Excitation,
        runs_s: LastOfUsers,
        horizon_s: float,
        samples: int,
        generator: Generator,
    ) -> None:
        self._process, self._runs_s, self._horizon_s = process, runs_s, horizon_s
        self._generator = generator
        # The row of index -1 is that of new users.
        self._weights = np.vstack([process.weights(), process.common_weights])
        self._levels = generator.gamma(1.0 / LEVEL_VARIANCE, LEVEL_VARIANCE, samples)
        # The rhythm repeats each week, and horizons can be millennia: of nodes that save nothing.
        hours = process.now_s + np.arange(0.0, min(horizon_s, BINS * HOUR_S) + HOUR_S, HOUR_S)
        self._most = float(process.rhythm.of(hours).max())
        self._bound = np.where(IS_RHYTHMIC, self._most, 1.0)
        reached = 1.0 - np.exp(-horizon_s * BETA_PER_S)
        children = self._weights * self._bound * reached
        self._by_submission = (children * ~OF_ENDS).cumsum(1)
        self._by_end = (children * OF_ENDS).cumsum(1)

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
        return self._events(self._samples(len(time_s)), time_s, user, none, none)

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
        count = int(kept.sum())
        parent = np.full(count, -1)
        return self._events(self._samples(count), time_s[kept], user[kept], kernel[kept], parent)

    def of_ends(self, ends: Ends) -> Events:
        """Return the events that the ends of running jobs cause."""
        sample, job = np.nonzero(ends.after_s <= self._horizon_s)
        user, none = ends.user[job], np.full(len(sample), -1)
        upto = self._by_end[user] * self._levels[sample, None]
        return self._effects(sample, ends.after_s[sample, job], user, none, upto)

    def children(self, parents: Events, offset: int) -> Events:
        """Return the events that events and the ends of their jobs cause.

        Args:
            parents: the causes.
            offset: the row of the first of these.
        """
        end_s = parents.time_s + parents.run_s
        ends = np.flatnonzero(end_s <= self._horizon_s)
        at = np.concatenate([np.arange(len(end_s)), ends])
        cause_s = np.concatenate([parents.time_s, end_s[ends]])
        user = parents.user
        upto = np.concatenate([self._by_submission[user], self._by_end[user[ends]]])
        return self._effects(parents.sample[at], cause_s, user[at], at + offset, upto)

    def _effects(
        self, sample: Ints, cause_s: Floats, user: Ints, row: Ints, upto: Floats
    ) -> Events:
        """Return the effects of causes.

        Effects are drawn up to one horizon after their cause; those after the end are left out.

        Args:
            sample: int64[n], the sample of each cause.
            cause_s: float64[n], its time after now, s.
            user: int64[n], its user.
            row: int64[n], the `Events.parent` of its effects.
            upto: float64[n, kernels], cumulative expected number of effects through the kernels.
        """
        counts = self._generator.poisson(upto[:, -1])
        cause = np.repeat(np.arange(len(counts)), counts)
        drawn = self._generator.random(len(cause)) * upto[cause, -1]
        kernel = (upto[cause] <= drawn[:, None]).sum(1)
        time_s = cause_s[cause] + self._delays(kernel, np.full(len(kernel), self._horizon_s))
        kept = (time_s <= self._horizon_s) & self._kept(time_s, IS_RHYTHMIC[kernel])
        cause = cause[kept]
        return self._events(sample[cause], time_s[kept], user[cause], kernel[kept], row[cause])

    def _delays(self, kernel: Ints, most_s: Floats) -> Floats:
        """Return delays of effects, exponential up to `most_s`, s."""
        beta = BETA_PER_S[kernel]
        reached = 1.0 - np.exp(-most_s * beta)
        return -np.log1p(-reached * self._generator.random(len(kernel))) / beta

    def _kept(self, time_s: Floats, rhythmic: Bools) -> Bools:
        factor = self._process.rhythm.of(self._process.now_s + time_s)
        kept: Bools = ~rhythmic | (self._generator.random(len(time_s)) * self._most < factor)
        return kept

    def _samples(self, count: int) -> Ints:
        """Return the sample of each of a number of first events, in proportion to the levels."""
        edges = self._levels.cumsum()
        found: Ints = np.searchsorted(edges, edges[-1] * self._generator.random(count))
        return found

    def _events(
        self, sample: Ints, time_s: Floats, user: Ints, kernel: Ints, parent: Ints
    ) -> Events:
        run_s = self._runs_s.drawn(self._generator, user)[:, 0]
        return Events(sample, time_s, user, kernel, parent, run_s, [])


def _joined(parts: list[Events]) -> Events:
    sample, time_s, user, kernel, parent, run_s = (
        np.concatenate([part[at] for part in parts]) for at in range(6)
    )
    return Events(sample, time_s, user, kernel, parent, run_s, [])
