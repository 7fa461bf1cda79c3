"""Rules on the forecast costs that a pairing agent observes, without a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Floats
from hpcosim_client.view import Policy
from hpcosim_papers.ineps.agent import forecast_features as columns
from hpcosim_papers.ineps.agent.choices import Choices, Rows
from hpcosim_papers.ineps.agent.rounds import PairingRounds
from hpcosim_papers.ineps.agent.settings import Objective, Pairing
from hpcosim_schedulers.agents.rounds import by_rounds

Score = Callable[[Rows, Rows], Floats]
"""Takes the rows and their cost columns under one weight; returns scores, float64[rows]."""

SCORES: Mapping[str, Score] = {
    "cheapest": lambda _, costs: -costs[:, columns.COST].astype(np.float64),
    "costliest": lambda _, costs: costs[:, columns.COST].astype(np.float64),
    "longest": lambda rows, _: (
        rows[:, columns.REQUESTED].astype(np.float64) * rows[:, columns.CORES]
    ),
}
"""Scores by name; of the affordable pairs the one with the highest score is placed first."""

SLACKS = (0.0, 0.1, 0.3)


class Rule(NamedTuple):
    """A rule that chooses a pair of job and node, or waits.

    A pair is affordable if it costs at most (1 + slack) times the job's cheapest option. Without
    an affordable pair the rule waits; if it may not wait, it takes the pair with the smallest cost
    ratio.

    Attributes:
        score: a key of `SCORES`.
        slack: tolerated relative extra cost, 0 or more.
        weight: index in `forecast_features.WEIGHTS` of the weight used for costs.
    """

    score: str
    slack: float
    weight: int

    def choose(self, choices: Choices) -> int:
        """Return the index of its choice."""
        rows = choices.rows
        first = columns.FIRST_WEIGHT + columns.PER_WEIGHT * self.weight
        costs = rows[:, first : first + columns.PER_WEIGHT]
        waits = rows[:, columns.WAITS] > 0.0
        share = np.where(waits, -1.0, costs[:, columns.LEAST])
        cheap = share >= 1.0 / (1.0 + self.slack) - 1e-6
        if not cheap.any():
            return int(waits.argmax() if waits.any() else share.argmax())
        # The cheaper pair breaks ties.
        scores = np.where(cheap, SCORES[self.score](rows, costs), -np.inf)
        best = np.flatnonzero(scores >= scores.max() - 1e-9)
        return int(best[costs[best, columns.COST].argmin()])


RULES = [
    Rule(score, slack, weight)
    for score in SCORES
    for slack in SLACKS
    for weight in range(len(columns.WEIGHTS))
]

BEST: Mapping[Objective, Rule] = {
    "energy": Rule("longest", 0.1, 2),
    "edp": Rule("longest", 0.0, 3),
}
"""The rule of `RULES` with the lowest mean cost on the validation workloads of
`hpcosim reproduce pairing-unseen`, by objective."""


def pairing_rule(objective: Objective, rule: Rule | None = None) -> Policy:
    """Return the policy of a rule on the forecast.

    Args:
        objective: minimised quantity.
        rule: the rule; None: that of `BEST`.
    """
    chosen = rule or BEST[objective]
    return by_rounds(
        lambda view: PairingRounds(Pairing(objective=objective), view),
        lambda _, choices: chosen.choose(choices),
    )
