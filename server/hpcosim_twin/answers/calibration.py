"""Ranges that hold as often as they say, by the answers given before; how good forecasts were."""

from __future__ import annotations

import heapq
import math
import statistics
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import count, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from hpcosim_client.arrays import Floats
from hpcosim_twin.answers.table import RANGES
from hpcosim_twin.cluster.observation import Observation, read_json
from hpcosim_twin.futures.forecast import HIGH, LOW
from hpcosim_twin.futures.reference import HORIZON_S

MAX_BYTES = 1 << 26
WANTED = "the output of `hpcosim ask queue --json`"

LEVELS = tuple(sorted({0.5, *((1 - p) / 2 for p in RANGES), *((1 + p) / 2 for p in RANGES)}))
"""Levels of the quantiles of drawn waits from which ranges are calibrated."""
OFFSET_S = 60.0
"""Waits count by the logarithm of their sum with this, s: schedulers work in passes of about a
minute, so waits of seconds do not differ."""
LEAST_SPREAD = 0.5
"""Standard deviation that is added to drawn waits on this scale.

A forecast that is certain and wrong would otherwise have a score that makes all ranges useless.
Chosen on parts of logs before those of the published table.
"""
NEVER_S = 1e8
"""Waits from which a job never starts, s: three years."""
PROBABILITY = 0.8
"""Probability of the range of a forecast of the queue."""
GRAIN_S = 1.0
"""How far a start may lie outside a range, s: the grain of Slurm's times."""
PRIOR = 20
"""Number of answers as which the drawn ranges count, before answers are known."""
WINDOW = 1000
"""Number of last answers that count."""
RATE = 0.01
"""Step by which the share of misses that a range aims at changes with each answer."""


normal_quantile: Callable[[float], float] = statistics.NormalDist().inv_cdf


class DrawnWait(NamedTuple):
    """Quantiles of a drawn wait, logarithmic, by the normal quantiles of their levels.

    Between them and beyond the outer ones the scale is linear, so a wait outside of all that was
    drawn has a score, too.

    Attributes:
        normal: quantiles of the normal distribution, ascending; the middle one is that of the
            median.
        logs: logarithms of the waits, s, strictly ascending.
    """

    normal: tuple[float, ...]
    logs: tuple[float, ...]

    def score(self, wait_s: float) -> float:
        """Return where a wait lies in what was drawn: about normal if the draws are right."""
        return self._mapped(math.log(min(max(wait_s, 0.0), NEVER_S) + OFFSET_S), *self[::-1])

    def wait_s(self, score: float) -> float:
        """Return the wait of a score, s, at most `HORIZON_S`, beyond which nothing is simulated.

        Infinity: never, as in the draws.
        """
        found_s = math.exp(min(self._mapped(score, *self), 700.0)) - OFFSET_S
        if found_s < HORIZON_S:
            return max(found_s, 0.0)
        is_drawn = self.logs[-1] > math.log(NEVER_S)
        return math.inf if is_drawn and found_s >= NEVER_S / 10 else HORIZON_S

    def _mapped(self, value: float, given: tuple[float, ...], found: tuple[float, ...]) -> float:
        if value < given[0]:
            at, other = 0, 1
        elif value > given[-1]:
            at, other = -1, -2
        else:
            return float(np.interp(value, given, found))
        middle = len(given) // 2
        slopes = [
            (self.logs[at] - self.logs[inner]) / (self.normal[at] - self.normal[inner])
            for inner in (other, middle)
        ]
        slope = max(slopes)
        beyond = value - given[at]
        return found[at] + (beyond / slope if given is self.logs else beyond * slope)


def drawn_wait(levels: Sequence[float], waits_s: Sequence[float]) -> DrawnWait:
    """Return a drawn wait.

    Args:
        levels: in (0, 1), ascending, of odd number; the middle one is 0.5.
        waits_s: quantiles of the wait at these levels, s; infinity: never.
    """
    normal = tuple(map(normal_quantile, levels))
    logs = (math.log(min(max(wait_s, 0.0), NEVER_S) + OFFSET_S) for wait_s in waits_s)
    spread = (log + LEAST_SPREAD * score for log, score in zip(logs, normal, strict=True))
    return DrawnWait(normal, tuple(spread))


def wait_of_draws(waits_s: Floats) -> DrawnWait:
    """Return the drawn wait of waits that were drawn, s, in any order; infinity: never."""
    found: list[float] = np.quantile(waits_s, np.array(LEVELS), method="inverted_cdf").tolist()
    return drawn_wait(LEVELS, found)


def normal_scores(count: int) -> Floats:
    """Return scores as of perfect draws."""
    return np.array([normal_quantile((at + 0.5) / count) for at in range(count)])


class ScoreRange(NamedTuple):
    """A range between scores."""

    low: float
    high: float


class Tails(NamedTuple):
    """Shares of misses that a range aims at, below and above."""

    low: float
    high: float


class _Answer(NamedTuple):
    """An answer whose job has not started.

    Attributes:
        over_s: end of the range of 80 %: a job that waits longer counts as one that starts now.
        weight: the weight of its misses.
    """

    asked_s: float
    drawn: DrawnWait
    given: Mapping[float, ScoreRange]
    over_s: float
    weight: float


class AdaptiveRanges:
    """Ranges of waits that hold as often as they say, by what became of earlier answers.

    Each job that starts gives a score: where its wait lies in what was drawn. A range reaches from
    one quantile of the past scores to another: conformal prediction with the scores of
    conformalized quantile regression (Romano, Patterson and Candes 2019, arXiv 1905.03222), on a
    logarithmic scale. The answers of a cluster are not exchangeable, so the share of misses that a
    range aims at falls by `RATE` with each miss and rises back with the hits: over a long time the
    range misses as often as wanted, whatever happens (adaptive conformal inference, Gibbs and
    Candes 2021, arXiv 2106.00170).

    A job that waits beyond its range counts as one that starts now. Before answers are known, the
    drawn ranges count, as `PRIOR` answers.

    Args:
        prior: scores of earlier answers, such as those of a calibration; empty: none.
    """

    def __init__(self, prior: Sequence[float] = ()) -> None:
        self._is_new = not len(prior)
        self._prior = normal_scores(PRIOR) if self._is_new else np.array(prior)
        self._scores: deque[float] = deque(maxlen=WINDOW)
        self._answers: dict[Hashable, list[_Answer]] = {}
        self._aims = {each: Tails((1 - each) / 2, (1 - each) / 2) for each in RANGES}

    def ranges(self, now_s: float) -> dict[float, ScoreRange]:
        """Return the ranges of scores by probability."""
        late = [
            each.drawn.score(now_s - each.asked_s)
            for answers in self._answers.values()
            for each in answers
            if each.over_s < now_s
        ]
        if self._is_new and not self._scores and not late:
            return {
                each: ScoreRange(normal_quantile(aims.low), -normal_quantile(aims.high))
                for each, aims in self._aims.items()
            }
        known = np.concatenate([self._prior, np.array([*self._scores, *late])])
        levels = [level for aims in self._aims.values() for level in (aims.low, 1.0 - aims.high)]
        found = iter(np.quantile(known, levels, method="hazen").tolist())
        return {each: ScoreRange(next(found), next(found)) for each in self._aims}

    def answered(
        self,
        job: Hashable,
        drawn: DrawnWait,
        now_s: float,
        given: Mapping[float, ScoreRange],
        weight: float = 1.0,
    ) -> None:
        """Remember an answer.

        Args:
            job: name of the job; it may have several answers.
            given: the ranges of the answer, of `ranges(now_s)`.
            weight: weight of its misses: 1 / n for each of n answers at one instant, which are
                right or wrong together.
        """
        over_s = now_s + drawn.wait_s(given[PROBABILITY].high)
        self._answers.setdefault(job, []).append(_Answer(now_s, drawn, given, over_s, weight))

    def started(self, job: Hashable, start_s: float) -> None:
        """Take the start of a job; one without answers has no effect."""
        for each in self._answers.pop(job, ()):
            score = each.drawn.score(start_s - each.asked_s)
            self._scores.append(score)
            self._aims = {
                wanted: _moved(aims, wanted, each.given[wanted], score, each.weight)
                for wanted, aims in self._aims.items()
            }

    def gone(self, job: Hashable) -> None:
        """Forget a job that will not start, such as one that was cancelled."""
        self._answers.pop(job, None)

    @property
    def scores(self) -> list[float]:
        """The scores of the last answers, the oldest first: the prior of a later one."""
        return list(self._scores)


def _moved(aims: Tails, wanted: float, given: ScoreRange, score: float, weight: float) -> Tails:
    """Return the shares of misses that a range aims at after an answer."""
    tail = (1 - wanted) / 2

    def moved(aim: float, is_missed: bool) -> float:
        return min(max(aim + RATE * weight * (tail - is_missed), tail / 20), 1.8 * tail)

    return Tails(moved(aims.low, score < given.low), moved(aims.high, score > given.high))


class PastAnswer(NamedTuple):
    """An answer, and what became of it; times in s on one clock.

    Attributes:
        start_s: the start; None: the job still waits.
    """

    asked_s: float
    drawn: DrawnWait
    start_s: float | None


def given_ranges(
    answers: Iterable[PastAnswer], found: AdaptiveRanges
) -> list[Mapping[float, ScoreRange]]:
    """Return the ranges of answers, each by what was known when it was given.

    Args:
        answers: in the order in which they were given.
        found: the ranges before the first answer; it learns from all starts.
    """
    asked, numbers = attrgetter("asked_s"), count()
    starts: list[tuple[float, int]] = []
    result: list[Mapping[float, ScoreRange]] = []
    for asked_s, together in groupby(answers, key=asked):
        while starts and starts[0][0] <= asked_s:
            start_s, number = heapq.heappop(starts)
            found.started(number, start_s)
        given, group = found.ranges(asked_s), list(together)
        for each in group:
            number = next(numbers)
            found.answered(number, each.drawn, asked_s, given, 1.0 / len(group))
            result.append(given)
            if each.start_s is not None:
                heapq.heappush(starts, (each.start_s, number))
    for start_s, number in sorted(starts):
        found.started(number, start_s)
    return result


class PastRange(NamedTuple):
    """An earlier forecast of a job; times in s on one clock.

    Attributes:
        asked_s: time of the forecast.
        low_s, median_s, high_s: quantiles of the drawn starts; `high_s` is the upper end.
        start_s: the start; None: the job still waits.
    """

    asked_s: float
    low_s: float
    median_s: float
    high_s: float
    start_s: float | None

    def drawn(self) -> DrawnWait:
        """Return the drawn wait from the forecast on."""
        starts_s = (self.low_s, self.median_s, self.high_s)
        return drawn_wait((LOW, 0.5, HIGH), [each - self.asked_s for each in starts_s])

    def answer(self) -> PastAnswer:
        """Return the forecast as an answer."""
        return PastAnswer(self.asked_s, self.drawn(), self.start_s)


def range_of(forecast: PastRange, by: ScoreRange) -> tuple[float, float]:
    """Return the range of a forecast between two scores, with its median, not before it was asked.

    Infinity: never.
    """
    drawn = forecast.drawn()
    low_s, high_s = (forecast.asked_s + drawn.wait_s(score) for score in by)
    return max(min(low_s, forecast.median_s), forecast.asked_s), max(high_s, forecast.median_s)


def learned_ranges(past: Iterable[PastRange], prior: Sequence[float] = ()) -> AdaptiveRanges:
    """Return the ranges that earlier forecasts teach.

    Args:
        past: earlier forecasts, as they were drawn.
        prior: scores of earlier answers, such as those of a calibration; empty: none.
    """
    found = AdaptiveRanges(prior)
    given_ranges((each.answer() for each in sorted(past, key=attrgetter("asked_s"))), found)
    return found


def calibrated(answer: Mapping[str, Any], given: Mapping[float, ScoreRange]) -> dict[str, Any]:
    """Return an answer about the queue, as JSON, with the ranges of scores.

    The rows get `ranges`; `low_s` and `high_s` are those of the range of `PROBABILITY`.
    """
    rows = [_with_ranges(row, answer["at_s"], given) for row in answer["jobs"]]
    return {**answer, "jobs": rows}


def _with_ranges(
    row: Mapping[str, Any], at_s: float, given: Mapping[float, ScoreRange]
) -> dict[str, Any]:
    if row["median_s"] is None:
        return {**row, "ranges": {str(each): [None, None] for each in RANGES}}
    drawn = past_range((row["drawn_low_s"], row["median_s"], row["drawn_high_s"]), at_s)
    found = {each: range_of(drawn, given[each]) for each in RANGES}
    ranges = {
        str(each): [low_s, high_s if math.isfinite(high_s) else None]
        for each, (low_s, high_s) in found.items()
    }
    low, high = ranges[str(PROBABILITY)]
    return {**row, "low_s": low, "high_s": high, "ranges": ranges}


def past_range(times_s: Sequence[float | None], asked_s: float) -> PastRange:
    """Return a forecast of low end, median and high end; None: never."""
    low_s, median_s, high_s = (math.inf if each is None else each for each in times_s)
    return PastRange(asked_s, low_s, median_s, high_s, None)


class _Job(msgspec.Struct):
    job_id: int
    median_s: float | None
    drawn_low_s: float | None
    drawn_high_s: float | None


class _Earlier(msgspec.Struct):
    at_s: float
    jobs: list[_Job]


def past_ranges(files: Sequence[Path], seen: Observation) -> list[PastRange]:
    """Return the earlier forecasts of jobs that Slurm still shows; Unix times.

    Args:
        files: outputs of `hpcosim ask queue --json`.

    Raises:
        OSError: a file cannot be read.
        ForecastError: a file is no such output.
    """
    found = []
    for path in files:
        earlier = read_json(path, MAX_BYTES, _Earlier, WANTED)
        for each in earlier.jobs:
            job = seen.state.jobs.get(each.job_id)
            if job is None or each.drawn_low_s is None or each.drawn_high_s is None:
                continue
            if each.median_s is None or (job.started_s is None and job.state != "pending"):
                continue
            times_s = (earlier.at_s, each.drawn_low_s, each.median_s, each.drawn_high_s)
            found.append(PastRange(*times_s, job.started_s))
    return found


class Forecasted(NamedTuple):
    """A forecast beside what happened; all times in s.

    Attributes:
        slurm_s: what `squeue --start` said; None: nothing.
    """

    actual_s: float
    median_s: float
    low_s: float
    high_s: float
    slurm_s: float | None


class Score(NamedTuple):
    """The score of forecasts.

    Attributes:
        coverage: share of the starts that lie in the range.
        compared: number of forecasts of jobs for which Slurm said something.
        compared_error_s: median absolute error of these, s; NaN: there are none.
        slurm_error_s: that of Slurm, s; NaN: it said nothing.
    """

    forecasts: int
    error_s: float
    coverage: float
    compared: int
    compared_error_s: float
    slurm_error_s: float


def score_of(forecasts: Iterable[Forecasted]) -> Score:
    """Return the score of forecasts."""
    found = list(forecasts)
    both = [each for each in found if each.slurm_s is not None]
    inside = [each.low_s - GRAIN_S <= each.actual_s <= each.high_s + GRAIN_S for each in found]
    return Score(
        len(found),
        statistics.median(abs(each.median_s - each.actual_s) for each in found),
        sum(inside) / len(found),
        len(both),
        _median(abs(each.median_s - each.actual_s) for each in both),
        _median(abs((each.slurm_s or 0.0) - each.actual_s) for each in both),
    )


def interval_score(low: Floats, high: Floats, actual: Floats, probability: float) -> Floats:
    """Return the interval scores of ranges: width, and penalties of misses; lower is better.

    Winkler 1972; Gneiting and Raftery 2007, DOI 10.1198/016214506000001437, equation 43.
    """
    penalty = 2.0 / (1.0 - probability)
    below, above = np.maximum(low - actual, 0.0), np.maximum(actual - high, 0.0)
    return high - low + penalty * (below + above)


def _median(values: Iterable[float]) -> float:
    found = list(values)
    return statistics.median(found) if found else math.nan
