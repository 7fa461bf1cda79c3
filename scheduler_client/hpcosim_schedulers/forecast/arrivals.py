"""Future submissions: their expected number and size, and samples of a self-exciting process.

A sample is drawn as families of causes and effects. Sizes and run times are the last values of the
same user.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from hpcosim_client.arrays import Bools, Floats, Ints
from hpcosim_schedulers.forecast.excitation import (
    BETA_PER_S,
    BINS,
    HOUR_S,
    IS_RHYTHMIC,
    KERNELS,
    OF_ENDS,
    Excitation,
)

# The mean of a self-exciting process, as the solution of differential equations.

FIRST_STEP_S = 5.0
GROWTH = 1.2
"""Ratio of a step to the one before it."""
MAX_STEPS = 400


MAX_EVENTS = 500_000
"""Number of events, of all samples, from which no further generation is drawn."""

LEVEL_VARIANCE = 0.25
"""Variance of the factor of mean 1 by which the submissions of a sample are more or fewer, apart
from their children: what the model does not know of the present activity."""


OWN = 16
"""Number of last jobs of a user that are remembered."""
COMMON = 512
"""Number of last jobs of all users that are remembered."""
PRIOR = 2.0
"""Number of own jobs that count as much as those of all users, in means."""


def mean_submissions(
    process: Excitation, run_s: Floats, user: Ints, after_s: Floats, horizons_s: Sequence[float]
) -> Floats:
    """Return the expected number of submissions by user, up to each horizon.

    The mean of a Hawkes process with exponential kernels follows linear differential equations
    (Dassios and Zhao 2011, DOI 10.1239/aap/1316792671); they are solved by implicit Euler steps of
    5 s and more. Run times of submissions to come count as exponential with the mean of the user.

    Args:
        run_s: float64[users + 1], mean run time of each user, and of new ones, s.
        user: int64[jobs], number of the user of each running job.
        after_s: float64[samples, jobs], samples of their ends, s after now.
        horizons_s: durations from now on, s, ascending, >= 0.

    Returns:
        float64[horizons, users + 1].
    """
    weights = np.vstack([process.weights(), process.common_weights])
    by_submission, by_end = weights * BETA_PER_S * ~OF_ENDS, weights * BETA_PER_S * OF_ENDS
    parts = weights * BETA_PER_S * np.vstack([process.state(), np.zeros(KERNELS)])
    source = np.append(process.user_shares(), 0.0)
    source[-1] = 1.0 - source.sum()
    source *= process.spontaneous_per_s
    ends = _Ends(user, after_s, len(source))
    mean, running = np.zeros(len(source)), np.zeros(len(source))
    found = np.zeros((len(horizons_s), len(source)))
    passed_s, step_s = 0.0, FIRST_STEP_S
    longest_s = max((float(horizons_s[-1]) if len(horizons_s) else 0.0) / MAX_STEPS, HOUR_S)
    for place, horizon_s in enumerate(horizons_s):
        while passed_s < horizon_s:
            dt = min(step_s, horizon_s - passed_s)
            factor = process.rhythm.at(process.now_s + passed_s + 0.5 * dt)
            effect = np.where(IS_RHYTHMIC, factor, 1.0) / (1.0 + dt * BETA_PER_S)
            ending = dt / (run_s + dt)
            ended = ends.mean(passed_s, passed_s + dt) + ending * running
            gain = dt * (by_submission @ effect + ending * (by_end @ effect))
            fresh = source * factor + (parts + by_end * ended[:, None]) @ effect
            count = dt * fresh / np.maximum(1.0 - gain, 0.05)
            ended += ending * count
            running = (1.0 - ending) * (running + count)
            parts += by_submission * count[:, None] + by_end * ended[:, None]
            parts /= 1.0 + dt * BETA_PER_S
            mean += count
            passed_s += dt
            step_s = min(GROWTH * step_s, longest_s)
        found[place] = mean
    return found


class _Ends:
    """The ends of running jobs in the order of time; for the arguments see `mean_submissions`."""

    def __init__(self, user: Ints, after_s: Floats, users: int) -> None:
        order = np.argsort(after_s, axis=None)
        self._after_s = after_s.ravel()[order]
        self._user = np.tile(user, len(after_s))[order]
        self._samples, self._users = max(len(after_s), 1), users

    def mean(self, from_s: float, upto_s: float) -> Floats:
        """Return the mean number of ends after `from_s`, up to `upto_s`, float64[users]."""
        low, high = np.searchsorted(self._after_s, (from_s, upto_s), side="right")
        found = np.bincount(self._user[low:high], minlength=self._users)
        mean: Floats = found / self._samples
        return mean


class RunningJobs(NamedTuple):
    """Samples of the ends of the running jobs."""

    users: Sequence[str]
    ends_s: Floats


NONE_RUN = RunningJobs((), np.zeros((1, 0)))


class ExpectedArrivals(NamedTuple):
    """Expected submissions up to several horizons.

    Attributes:
        jobs: float64[horizons], expected number of submissions after now, up to each horizon.
        size: float64[horizons], sum of their sizes: cores or nodes, as they were observed.
    """

    jobs: Floats
    size: Floats


class ArrivalScenarios(NamedTuple):
    """Samples of future submissions, sorted by sample and time.

    Attributes:
        sample: int64[n], the sample of each submission, 0 to `samples` - 1.
        submit_s: float64[n], its time, s.
        size: float64[n], cores or nodes, as they were observed.
        requested_s: float64[n], requested time, s; infinity: unknown or none.
        user: int64[n], index of the user in `users`; -1: a user never seen.
    """

    samples: int
    sample: Ints
    submit_s: Floats
    size: Floats
    requested_s: Floats
    user: Ints
    users: Sequence[str]

    def counts(self) -> Ints:
        """Return the number of submissions of each sample, int64[samples]."""
        return np.bincount(self.sample, minlength=self.samples)

    def sizes(self) -> Floats:
        """Return the sum of the sizes in each sample, float64[samples]."""
        found = np.bincount(self.sample, weights=self.size, minlength=self.samples)
        return found.astype(np.float64)


class Arrivals:
    """Forecasts of submissions, learned online; see `Excitation` for the model.

    Sizes and requested times of a forecast submission are those of the submission that caused it,
    with the frequency observed for this kernel, and otherwise those of one of the last jobs of the
    user. After the run time of one of the user's last jobs that ended, it ends, and others may
    follow.

    Example:
        >>> from hpcosim_schedulers.forecast import Arrivals
        >>> arrivals = Arrivals()
        >>> for minute in range(600):
        ...     arrivals.submitted(60.0 * minute, "ann", 4.0, 3600.0)
        >>> round(float(arrivals.expected(36_000.0, [600.0]).jobs[0]))
        10
    """

    def __init__(self) -> None:
        self._excitation = Excitation()
        self._requests = LastOfUsers((1.0, math.inf))
        self._runs_s = LastOfUsers((math.inf,))
        self._number: dict[str, int] = {}
        self._names: list[str] = []
        self._same: Floats = np.full(KERNELS, 1.0)
        self._causes: Floats = np.full(KERNELS, 2.0)

    def submitted(self, now_s: float, user: str, size: float, requested_s: float) -> None:
        """Take a submission.

        Args:
            now_s: its time, s; one before the last call of any method counts as that.
            user: its user; empty: unknown.
            size: number of cores or nodes: what forecasts shall count.
            requested_s: requested time, s; infinity: unknown or none.
        """
        number = self._number.get(user)
        if number is None:
            number = self._number[user] = self._excitation.new_user()
            self._names.append(user)
        shares = self._excitation.submitted(now_s, number)
        self._causes += shares
        if self._requests.add(number, (size, requested_s)):
            self._same += shares

    def ended(self, now_s: float, user: str, run_s: float) -> None:
        """Take the end of a job; that of a user without submissions has no effect.

        Args:
            now_s: its time, s; one before the last call of any method counts as that.
            user: its user; empty: unknown.
        """
        number = self._number.get(user)
        if number is not None:
            self._excitation.ended(now_s, number)
            self._runs_s.add(number, (run_s,))

    def expected(
        self, now_s: float, horizons_s: Sequence[float], running: RunningJobs = NONE_RUN
    ) -> ExpectedArrivals:
        """Return the expected submissions, given all submissions so far; see `mean_submissions`.

        Args:
            horizons_s: durations from now on, s, ascending, >= 0.
            running: ends of the running jobs, which cause submissions; none: unknown.
        """
        process = self._excitation
        process.advance(now_s)
        sizes, runs_s = self._requests.means(process.users), self._runs_s.means(process.users)
        ends = self._ends(running)
        jobs = mean_submissions(process, runs_s[:, 0], *ends, horizons_s)
        return ExpectedArrivals(jobs.sum(1), jobs @ sizes[:, 0])

    def missed(self, now_s: float) -> float:
        """Return the number of submissions that was expected since the last one; see `Excitation`.

        Of a process as the model has it, it exceeds x with probability exp(-x): a large value
        means that what went on has ended.
        """
        self._excitation.advance(now_s)
        return self._excitation.missed()

    def scenarios(
        self,
        now_s: float,
        horizon_s: float,
        samples: int,
        generator: Generator,
        running: RunningJobs = NONE_RUN,
    ) -> ArrivalScenarios:
        """Return samples of the submissions after `now_s`, up to `now_s + horizon_s`.

        Args:
            samples: number of samples, >= 1.
            running: ends of the running jobs, which cause submissions, with as many samples; none:
                unknown.
        """
        self._excitation.advance(now_s)
        ends = self._ends(running)
        events = simulated(self._excitation, self._runs_s, ends, horizon_s, samples, generator)
        marks = self._marks(events, generator)
        order = np.lexsort((events.time_s, events.sample))
        return ArrivalScenarios(
            samples,
            events.sample[order],
            self._excitation.now_s + events.time_s[order],
            marks[order, 0],
            marks[order, 1],
            events.user[order],
            self._names,
        )

    def _ends(self, running: RunningJobs) -> Ends:
        """Return the ends of jobs after now, without those of users without submissions."""
        number = np.array([self._number.get(user, -1) for user in running.users], dtype=np.int64)
        known = number >= 0
        return Ends(number[known], running.ends_s[:, known] - self._excitation.now_s)

    def _marks(self, events: Events, generator: Generator) -> Floats:
        """Return size and requested time of events, float64[n, 2]; causes precede effects."""
        marks = self._requests.drawn(generator, events.user)
        same = self._same / self._causes
        caused = events.kernel >= 0
        repeats = caused & (generator.random(len(marks)) < same[events.kernel])
        first = repeats & (events.parent < 0)
        marks[first] = self._requests.last(events.user[first])
        for low, high in events.generations:
            part = np.flatnonzero(repeats[low:high] & (events.parent[low:high] >= 0)) + low
            marks[part] = marks[events.parent[part]]
        return marks

    @property
    def now_s(self) -> float:
        """Time of the last call, s; NaN: there was none."""
        return self._excitation.now_s


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
        """Return the events that events and the ends of their jobs cause."""
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
        """Return the effects of causes."""
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


class LastOfUsers:
    """Values of the last jobs of each user and of all users."""

    def __init__(self, otherwise: Sequence[float]) -> None:
        width = len(otherwise)
        self._otherwise = np.array(otherwise)
        # The last row, that of index -1, is of new users and stays empty.
        self._own: Floats = np.zeros((16, OWN, width))
        self._count: Ints = np.zeros(16, dtype=np.int64)
        self._common: Floats = np.zeros((COMMON, width))
        self._total = 0

    def add(self, user: int, values: Sequence[float]) -> bool:
        """Add a job; return whether it has the same values as the last job of its user."""
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
