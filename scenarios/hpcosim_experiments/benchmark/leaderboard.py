"""The leaderboard of a suite: a row for each verified submission. A pure function of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from hpcosim_experiments.benchmark.suite import Suite
from hpcosim_experiments.benchmark.verify import Verified
from hpcosim_experiments.statistics.bootstrap import Bootstrap, Estimate, estimate
from hpcosim_experiments.statistics.statistic import paired_difference

CLASSES_S = ((0.001, "< 1 ms"), (0.01, "< 10 ms"), (0.1, "< 100 ms"), (math.inf, "100 ms or more"))
"""Upper limits of the classes of decision times, s, and their names."""


class Ranked(NamedTuple):
    """A row of a leaderboard.

    Attributes:
        verified: the submission.
        ratio: mean over the instances of score / bound.
        difference: mean over the instances of (score - score of the reference) / bound, with its
            confidence interval: a paired difference of ratios.
        wins: number of instances with a smaller score than the reference.
        decision: class of the mean decision time; not verified.
    """

    verified: Verified
    ratio: float
    difference: Estimate
    wins: int
    decision: str

    def mean_of(self, metric: str) -> float:
        """Return the mean of a metric over the instances."""
        values = [float(each[metric]) for each in self.verified.metrics.values()]
        return sum(values) / len(values)


def ranked(suite: Suite, submissions: Iterable[Verified]) -> list[Ranked]:
    """Return the rows of the leaderboard of a suite, the best first.

    Args:
        suite: the suite.
        submissions: verified submissions of the suite.
    """
    rows = [_row(suite, each) for each in submissions]
    return sorted(rows, key=lambda row: (row.ratio, row.verified.about.name))


def decision_class(verified: Verified) -> str:
    """Return the class of the mean decision time that a submission states."""
    if verified.about.transport == "schedule":
        return "unknown"
    entries = verified.about.instances.values()
    mean_s = sum(each.decision_s for each in entries) / sum(each.requests for each in entries)
    return next(name for limit_s, name in CLASSES_S if mean_s < limit_s)


def _row(suite: Suite, verified: Verified) -> Ranked:
    seals = suite.seals.values()
    own = verified.scores
    scores = np.array([own[seal.instance] for seal in seals])
    references = np.array([seal.reference for seal in seals])
    bounds = np.array([seal.bound for seal in seals])
    pairs = np.stack([scores, references], axis=-1) / bounds[:, None]
    return Ranked(
        verified,
        float(pairs[:, 0].mean()),
        estimate([pairs], paired_difference, Bootstrap()),
        int((scores < references).sum()),
        decision_class(verified),
    )


def columns_of(suite: Suite) -> Sequence[str]:
    """Return the metrics of the leaderboard: those of the score, and the further ones."""
    return list(dict.fromkeys((*suite.file.score, *suite.file.shown)))
