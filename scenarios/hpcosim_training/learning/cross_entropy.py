"""The cross-entropy method (Rubinstein, Kroese 2004): search by generations of candidates."""

from __future__ import annotations

from collections.abc import Callable
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
