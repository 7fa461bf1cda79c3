"""The cross-entropy method (Rubinstein, Kroese 2004): search by generations of candidates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Floats

MIN_SD = 0.02
SMOOTHING = 0.3  # weight of the previous mean and standard deviation

Costs = Callable[[Floats], Floats]
"""Maps weights, float64[candidates, ...], to costs, float64[candidates]."""


class Generations(NamedTuple):
    """Sizes of the generations.

    Attributes:
        candidates: number of candidates; one of them is the mean of the distribution.
        elite: number of best candidates that update the distribution.
    """

    candidates: int
    elite: int


class Searched(NamedTuple):
    """A generation of a search.

    Attributes:
        number: from 1.
        mean: float64[...], mean of the distribution of the next generation.
        costs: float64[candidates]; the first candidate is the mean of its distribution.
        seconds: wall-clock time, s.
    """

    number: int
    mean: Floats
    costs: Floats
    seconds: float

    @property
    def figures(self) -> tuple[float, float, float]:
        """Cost of the mean of its distribution, the least cost, and the median cost."""
        costs = self.costs
        return float(costs[0]), float(costs.min()), float(np.median(costs))


def generations(
    mean: Floats,
    sd: Floats,
    sizes: Generations,
    rng: np.random.Generator,
    new_costs: Callable[[], Costs],
) -> Iterator[Searched]:
    """Yield the generations of a search, without an end.

    Args:
        mean: float64[...], mean of the first distribution.
        sd: float64[...], standard deviations of it.
        sizes: sizes of the generations.
        rng: random number generator.
        new_costs: returns what evaluates the candidates of the next generation.
    """
    for number in count(1):
        began_s = time.monotonic()
        mean, sd, costs = next_distribution(mean, sd, sizes, rng, new_costs())
        yield Searched(number, mean, costs, time.monotonic() - began_s)


def next_distribution(
    mean: Floats, sd: Floats, sizes: Generations, rng: np.random.Generator, costs: Costs
) -> tuple[Floats, Floats, Floats]:
    """Sample a generation; return mean and standard deviation of the next one, and the costs.

    Args:
        mean: float64[...], mean of the distribution.
        sd: float64[...], standard deviations.
        sizes: sizes of the generations.
        rng: random number generator.
        costs: evaluates candidates.
    """
    drawn = rng.normal(mean, sd, (sizes.candidates, *mean.shape))
    drawn[0] = mean
    found = costs(drawn)
    elite = drawn[found.argsort(kind="stable")[: sizes.elite]]
    mean = SMOOTHING * mean + (1 - SMOOTHING) * elite.mean(axis=0)
    sd = SMOOTHING * sd + (1 - SMOOTHING) * (elite.std(axis=0) + MIN_SD)
    return mean, sd, found
