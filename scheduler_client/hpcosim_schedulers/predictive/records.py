"""How far the demand may rise above all that was seen: what is known before there is a forecast."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from hpcosim_client.arrays import Floats, Ints

EXPONENT = 1.5
"""Exponent of the distribution of the ratio of a record to the one before it."""
SHORTEST_S = 1.0
"""Least time of observation, s."""


class Surges(NamedTuple):
    """Submissions that raise the demand to its next records, sorted by sample and time.

    Attributes:
        sample: int64[n], the sample of each.
        after_s: float64[n], its time after now, s.
        nodes: float64[n], its size in nodes.
    """

    sample: Ints
    after_s: Floats
    nodes: Floats


class Records:
    """The highest demand so far, and samples of the higher ones to come.

    Whatever a stationary process is, its highest value within two times s and t after one another
    falls into the latter with probability t / (s + t). So after a time s of observation, records
    come at the rate 1 / (s + t) (Renyi 1962, Theorie des elements saillants d'une suite
    d'observations). The ratio of a record to the one before it has the scale-free distribution
    P(ratio > x) = x ** -`EXPONENT`. As s grows, records become rare.

    Args:
        nodes: number of nodes of the cluster, the upper bound of the demand.
    """

    def __init__(self, nodes: int) -> None:
        self._nodes = float(nodes)
        self._began_s = math.nan
        self._most = 0.0
        self._mean_nodes = 1.0

    def update(self, now_s: float, demand: float, jobs: int) -> None:
        """Take the demand at an instant.

        Args:
            now_s: the present time, s.
            demand: nodes that the running and the waiting jobs need together, >= 0.
            jobs: the number of these jobs, >= 1 if they need nodes.
        """
        if math.isnan(self._began_s):
            self._began_s = now_s
        self._most = max(self._most, demand)
        mean_nodes = demand / max(jobs, 1)
        if mean_nodes > 0.0:  # also where the quotient of a tiny demand is 0
            self._mean_nodes = mean_nodes

    def surges(
        self, now_s: float, horizon_s: float, held: float, samples: int, generator: Generator
    ) -> Surges:
        """Return jobs of the present mean size that raise the demand to its next records.

        Args:
            now_s: the present time, s.
            horizon_s: duration, s.
            held: nodes that running jobs hold now.
            samples: number of samples, >= 1.
            generator: source of randomness.
        """
        sample, after_s, level = self._drawn(now_s, horizon_s, samples, generator)
        level = np.clip(level, held, max(self._nodes, held))
        is_first = np.diff(sample, prepend=-1) > 0
        nodes = level - np.where(is_first, held, np.roll(level, 1))
        jobs = np.ceil(nodes / self._mean_nodes).astype(np.int64)
        size = nodes / np.maximum(jobs, 1)
        return Surges(np.repeat(sample, jobs), np.repeat(after_s, jobs), np.repeat(size, jobs))

    def _drawn(
        self, now_s: float, horizon_s: float, samples: int, generator: Generator
    ) -> tuple[Ints, Floats, Floats]:
        """Return sample, time after now (s) and demand of each record, sorted."""
        seen_s = max(now_s - self._began_s, SHORTEST_S)
        expected = math.log1p(horizon_s / seen_s)  # integral of the rate
        counts = generator.poisson(expected, samples)
        sample = np.repeat(np.arange(samples), counts)
        after_s = seen_s * np.expm1(expected * generator.random(len(sample)))
        after_s = after_s[np.lexsort((after_s, sample))]
        steps = np.append(0.0, generator.exponential(1.0 / EXPONENT, len(sample)).cumsum())
        before = steps[counts.cumsum() - counts][sample]
        return sample, after_s, self._most * np.exp(steps[1:] - before)
