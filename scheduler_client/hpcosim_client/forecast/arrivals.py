"""Future submissions: their expected number and size, and samples of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from hpcosim_client.arrays import Floats, Ints
from hpcosim_client.forecast.branching import Events, simulated
from hpcosim_client.forecast.calendar import HOUR_S
from hpcosim_client.forecast.excitation import BETA_PER_S, IS_RHYTHMIC, KERNELS, Excitation
from hpcosim_client.forecast.sizes import LastRequests

FIRST_STEP_S = 20.0
MAX_STEPS = 400


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
    user.

    Example:
        >>> from hpcosim_client.forecast import Arrivals
        >>> arrivals = Arrivals()
        >>> for minute in range(600):
        ...     arrivals.submitted(60.0 * minute, "ann", 4.0, 3600.0)
        >>> round(float(arrivals.expected(36_000.0, [600.0]).jobs[0]))
        10
    """

    def __init__(self) -> None:
        self._excitation = Excitation()
        self._requests = LastRequests()
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
        if self._requests.add(number, size, requested_s):
            self._same += shares

    def expected(self, now_s: float, horizons_s: Sequence[float]) -> ExpectedArrivals:
        """Return the expected submissions, given all submissions so far.

        The mean of a Hawkes process with exponential kernels follows linear differential equations
        (Dassios and Zhao 2011, DOI 10.1239/aap/1316792671); they are solved by implicit Euler steps
        of 20 s and more.

        Args:
            now_s: the present time, s.
            horizons_s: durations from now on, s, ascending, >= 0.
        """
        process = self._excitation
        process.advance(now_s)
        own, common = self._requests.mean_sizes(process.users)
        size = np.append(own, common)
        weights = np.vstack([process.weights(), process.common_weights])
        rates = weights * BETA_PER_S
        parts = rates * np.vstack([process.state(), np.zeros(KERNELS)])
        mean = np.zeros(len(size))
        source = np.append(process.user_shares(), 0.0)
        source[-1] = 1.0 - source.sum()
        source *= process.spontaneous_per_s
        found = np.zeros((len(horizons_s), 2))
        passed_s, step_s, number = 0.0, FIRST_STEP_S, 0
        longest_s = max((float(horizons_s[-1]) if len(horizons_s) else 0.0) / MAX_STEPS, HOUR_S)
        for place, horizon_s in enumerate(horizons_s):
            while passed_s < horizon_s:
                dt = min(step_s, horizon_s - passed_s)
                factor = process.rhythm.at(now_s + passed_s + 0.5 * dt)
                modulation = np.where(IS_RHYTHMIC, factor, 1.0)
                divisor = 1.0 + dt * BETA_PER_S
                gain = rates @ (modulation * dt / divisor)
                fresh = source * factor + parts @ (modulation / divisor)
                rate = fresh / np.maximum(1.0 - gain, 0.05)
                parts = (parts + dt * rates * rate[:, None]) / divisor
                mean += dt * rate
                passed_s += dt
                number += 1
                step_s = min(1.5 * step_s, longest_s)
            found[place] = mean.sum(), mean @ size
        return ExpectedArrivals(found[:, 0], found[:, 1])

    def missed(self, now_s: float) -> float:
        """Return the number of submissions that was expected since the last one; see `Excitation`.

        Of a process as the model has it, it exceeds x with probability exp(-x): a large value
        means that what went on has ended.
        """
        self._excitation.advance(now_s)
        return self._excitation.missed()

    def scenarios(
        self, now_s: float, horizon_s: float, samples: int, generator: Generator
    ) -> ArrivalScenarios:
        """Return samples of the submissions after `now_s`, up to `now_s + horizon_s`.

        Args:
            now_s: the present time, s.
            horizon_s: duration, s.
            samples: number of samples, >= 1.
            generator: source of randomness.
        """
        self._excitation.advance(now_s)
        events = simulated(self._excitation, horizon_s, samples, generator)
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
