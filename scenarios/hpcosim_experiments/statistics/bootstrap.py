"""Confidence intervals by the bootstrap.

The sources are:

- Efron, Tibshirani 1993: "An Introduction to the Bootstrap".

- Agarwal, Schwarzer, Castro, Courville, Bellemare 2021: "Deep Reinforcement Learning at the Edge of
  the Statistical Precipice", whose definitions the package rliable implements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Strata = Sequence[Floats]
"""Samples, one per task: each float64[repeats] or float64[repeats, values of a repeat]."""

Statistic = Callable[[Strata], Floats]
"""A statistic of several bootstrap samples at once.

Each stratum has the axes [..., repeats] or [..., repeats, values]; the result has the axes [...].
"""

Picks = Sequence[NDArray[np.int64]]

BLOCK = 1 << 20
"""Approximate number of values that are resampled at once, to bound the memory."""


VALUE, BASE = 0, 1
"""Columns of a pair: the value of a combination, and that of the baseline."""


class Bootstrap(NamedTuple):
    """Settings of the bootstrap.

    Attributes:
        confidence: level of the interval, between 0 and 1.
        method: `percentile` or `bca`.
        seed: seed of the random numbers. Each interval begins with it, so an interval depends on
            its own values only, and intervals of samples of the same size are comparable.
    """

    confidence: float = 0.95
    method: Literal["percentile", "bca"] = "percentile"
    resamples: int = 10_000
    seed: int = 0


class Estimate(NamedTuple):
    """A statistic with its confidence interval.

    Attributes:
        value: the statistic of the sample; NaN: undefined.
        low, high: the confidence interval; NaN: none, because a stratum has fewer than two repeats
            or the statistic of a bootstrap sample is undefined.
        size: number of values in the sample.
    """

    value: float
    low: float
    high: float
    size: int

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval."""
        return not math.isnan(self.low)


def estimate(strata: Strata, statistic: Statistic, settings: Bootstrap) -> Estimate:
    """Return a statistic with its bootstrap confidence interval.

    A bootstrap sample draws, from each stratum, as many repeats as it has, with replacement
    (Efron, Tibshirani 1993, chapter 6; stratified as in Agarwal et al. 2021, section 4.1).

    `percentile`: the interval between the (1 - confidence) / 2 and (1 + confidence) / 2 quantiles
    of the statistic over the bootstrap samples (Efron, Tibshirani 1993, section 13.3).

    `bca`: the same with quantiles that correct the bias and the skewness of the statistic
    (section 14.3). The acceleration is that of the jackknife over the repeats of all strata.

    Args:
        strata: the samples.
        settings: method, level, number and seed of the bootstrap samples.
    """
    size = sum(len(stratum) for stratum in strata)
    if not size:
        return Estimate(math.nan, math.nan, math.nan, 0)
    value = float(statistic(strata))
    if math.isnan(value) or min(len(stratum) for stratum in strata) < 2:
        return Estimate(value, math.nan, math.nan, size)
    drawn = np.concatenate([statistic(samples) for samples in _samples(strata, settings)])
    if np.isnan(drawn).any():
        return Estimate(value, math.nan, math.nan, size)
    tail = (1 - settings.confidence) / 2
    levels = [tail, 1 - tail]
    if settings.method == "bca":
        levels = _bca_levels(levels, value, drawn, _jackknife(strata, statistic))
    low, high = np.quantile(drawn, levels).tolist()
    return Estimate(value, low, high, size)


def _samples(strata: Strata, settings: Bootstrap) -> Iterator[list[Floats]]:
    """Yield bootstrap samples in blocks, each stratum with the axes [samples, repeats, ...]."""
    sizes = tuple(map(len, strata))
    block = max(1, BLOCK // sum(sizes))
    if settings.resamples <= block:
        blocks: Iterable[Picks] = [_all_picks(sizes, settings.resamples, settings.seed)]
    else:
        rng = np.random.default_rng(settings.seed)
        starts = range(0, settings.resamples, block)
        blocks = (_picks(rng, sizes, min(block, settings.resamples - at)) for at in starts)
    for picks in blocks:
        yield [np.take(one, pick, axis=0) for one, pick in zip(strata, picks, strict=True)]


@lru_cache(maxsize=8)
def _all_picks(sizes: tuple[int, ...], samples: int, seed: int) -> Picks:
    """Return the picks of all samples. Most intervals of a report share them."""
    return _picks(np.random.default_rng(seed), sizes, samples)


def _picks(rng: np.random.Generator, sizes: tuple[int, ...], samples: int) -> Picks:
    """Return the repeats that samples pick from each stratum, int64[samples, repeats]."""
    return [rng.integers(size, size=(samples, size)) for size in sizes]


def _jackknife(strata: Strata, statistic: Statistic) -> Floats:
    """Return the statistic without one repeat, for each repeat of each stratum."""
    left_out = []
    for number, stratum in enumerate(strata):
        parts = list(strata)
        for row in range(len(stratum)):
            parts[number] = np.delete(stratum, row, axis=0)
            left_out.append(statistic(parts))
    return np.array(left_out, dtype=np.float64)


def _bca_levels(
    levels: Sequence[float], value: float, drawn: Floats, left_out: Floats
) -> list[float]:
    """Return the corrected levels of the quantiles: equations 14.9 to 14.15."""
    normal = NormalDist()
    share = float(np.mean(drawn < value) + np.mean(drawn <= value)) / 2  # ties count half
    deviations = left_out.mean() - left_out
    spread = float(np.sum(deviations**2))
    if not 0 < share < 1 or spread == 0 or np.isnan(spread):
        return list(levels)  # no correction is defined
    bias = normal.inv_cdf(share)
    acceleration = float(np.sum(deviations**3)) / (6 * spread**1.5)

    def corrected(level: float) -> float:
        shifted = bias + normal.inv_cdf(level)
        return normal.cdf(bias + shifted / (1 - acceleration * shifted))

    return [corrected(level) for level in levels]


def mean(strata: Strata) -> Floats:
    """Return the mean over the tasks of the mean over the repeats.

    Each task has the same weight, also if the number of its repeats differs. With a single task it
    is the arithmetic mean.
    """
    means: Floats = np.mean([stratum.mean(axis=-1) for stratum in strata], axis=0)
    return means


def interquartile_mean(strata: Strata) -> Floats:
    """Return the interquartile mean: the mean without the lowest and the highest quarter.

    Of n values of all repeats and tasks together, floor(n / 4) are left out at each end. NaN if a
    value is NaN. Source: Agarwal et al. 2021, section 4.3.
    """
    values = np.sort(np.concatenate(list(strata), axis=-1), axis=-1)
    cut = values.shape[-1] // 4
    middle = values[..., cut : values.shape[-1] - cut].mean(axis=-1)
    return np.where(np.isnan(values[..., -1]), np.nan, middle)  # NaN sorts last


def paired_difference(strata: Strata) -> Floats:
    """Return the mean difference of pairs, value - baseline; each task has the same weight.

    A pair is two runs with the same labels on all axes but those of the baseline, so both have the
    same workload. Pairs are resampled as a whole, which removes the variation between workloads
    from the interval. Source: Efron, Tibshirani 1993, section 8.2 (one-sample problems).
    """
    return mean([pairs[..., VALUE] - pairs[..., BASE] for pairs in strata])


def paired_ratio(strata: Strata) -> Floats:
    """Return the ratio of the means of pairs, value / baseline; NaN if the baseline's mean is 0.

    The ratio of the means, and not the mean of the ratios, weights runs by their size and is
    defined if single values are 0. Source: Efron, Tibshirani 1993, section 10.3 (the patch data).
    """
    value = mean([pairs[..., VALUE] for pairs in strata])
    base = mean([pairs[..., BASE] for pairs in strata])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(base == 0, np.nan, value / base)


def interquartile_difference(strata: Strata) -> Floats:
    """Return the interquartile mean of the differences of pairs, value - baseline."""
    return interquartile_mean([pairs[..., VALUE] - pairs[..., BASE] for pairs in strata])


def interquartile_ratio(strata: Strata) -> Floats:
    """Return the interquartile mean of the ratios of pairs, value / baseline; NaN if one is 0.

    The ratio to the baseline is the normalised score of a task. Source: Agarwal et al. 2021,
    section 2.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = [
            np.where(pairs[..., BASE] == 0, np.nan, pairs[..., VALUE] / pairs[..., BASE])
            for pairs in strata
        ]
    return interquartile_mean(ratios)
