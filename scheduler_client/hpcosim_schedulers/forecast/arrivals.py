"""Future submissions: their expected number and size, and samples of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from hpcosim_client.arrays import Floats, Ints
from hpcosim_schedulers.forecast.branching import Ends, Events, simulated
from hpcosim_schedulers.forecast.calendar import HOUR_S
from hpcosim_schedulers.forecast.excitation import (
    BETA_PER_S,
    IS_RHYTHMIC,
    KERNELS,
    OF_ENDS,
    Excitation,
)
from hpcosim_schedulers.forecast.last_values import LastOfUsers

# The mean of a self-exciting process, as the solution of differential equations.

FIRST_STEP_S = 5.0
GROWTH = 1.2
"""Ratio of a step to the one before it."""
MAX_STEPS = 400


def mean_submissions(
    process: Excitation, run_s: Floats, user: Ints, after_s: Floats, horizons_s: Sequence[float]
) -> Floats:
    """Return the expected number of submissions by user, up to each horizon.

    The mean of a Hawkes process with exponential kernels follows linear differential equations
    (Dassios and Zhao 2011, DOI 10.1239/aap/1316792671); they are solved by implicit Euler steps of
    5 s and more. Run times of submissions to come count as exponential with the mean of the user.

    Args:
        process: the process, advanced to the present.
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
    """Samples of the ends of the running jobs.

    Attributes:
        users: the user of each job.
        ends_s: float64[samples, jobs], times of the ends, s.
    """

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
        samples: number of samples.
        sample: int64[n], the sample of each submission, 0 to `samples` - 1.
        submit_s: float64[n], its time, s.
        size: float64[n], cores or nodes, as they were observed.
        requested_s: float64[n], requested time, s; infinity: unknown or none.
        user: int64[n], index of the user in `users`; -1: a user never seen.
        users: names of the users.
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
            run_s: its run time, s.
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
            now_s: the present time, s.
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
            now_s: the present time, s.
            horizon_s: duration, s.
            samples: number of samples, >= 1.
            generator: source of randomness.
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
