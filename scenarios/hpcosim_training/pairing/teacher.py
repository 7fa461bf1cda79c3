"""Simple rules on what is foreseen: what an agent may learn to do first, before it does better."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hpcosim_client.agents.pairing import foreseen_rows as columns
from hpcosim_client.agents.pairing.choices import Choices, Rows
from hpcosim_client.job import Floats
from hpcosim_training.pairing.environment import PairingEnvironment

Rule = Callable[[Rows, Rows], Floats]
"""Takes the rows, and their columns under one weight; returns float64[rows]."""

RULES: Mapping[str, Rule] = {
    "cheapest": lambda _, costs: -costs[:, columns.COST].astype(np.float64),
    "dearest": lambda _, costs: costs[:, columns.COST].astype(np.float64),
    "longest": lambda rows, _: (
        rows[:, columns.REQUESTED].astype(np.float64) * rows[:, columns.CORES]
    ),
}
"""Which of the pairs that are cheap enough goes first: the one with the highest score."""

SLACKS = (0.0, 0.1, 0.3)


class Teacher(NamedTuple):
    """A pair is cheap enough if it costs at most (1 + slack) times the job's cheapest option.

    If none is, it waits, or takes the one that is closest to it where it may not.

    Attributes:
        rule: which of `RULES`.
        slack: see above.
        weight: the number of the one of `foreseen_rows.WEIGHTS` that costs are taken under.
    """

    rule: str
    slack: float
    weight: int

    def choose(self, choices: Choices) -> int:
        """Return which choice it takes."""
        rows = choices.rows
        first = columns.FIRST_WEIGHT + columns.PER_WEIGHT * self.weight
        costs = rows[:, first : first + columns.PER_WEIGHT]
        waits = rows[:, columns.WAITS] > 0.0
        share = np.where(waits, -1.0, costs[:, columns.LEAST])
        cheap = share >= 1.0 / (1.0 + self.slack) - 1e-6
        if not cheap.any():
            return int(waits.argmax() if waits.any() else share.argmax())
        # Of equal ones the cheapest.
        scores = np.where(cheap, RULES[self.rule](rows, costs), -np.inf)
        best = np.flatnonzero(scores >= scores.max() - 1e-9)
        return int(best[costs[best, columns.COST].argmin()])


TEACHERS = [
    Teacher(rule, slack, weight)
    for rule in RULES
    for slack in SLACKS
    for weight in range(len(columns.WEIGHTS))
]


def follow(teacher: Teacher, environment: PairingEnvironment) -> float:
    """Run an environment as the teacher says, and return the objective."""
    environment.reset()
    while not environment.done:
        environment.step(teacher.choose(environment.choices))
    return environment.objective


class Teaching(NamedTuple):
    """Who teaches.

    Attributes:
        best: who on the mean comes closest to the best teacher of each environment.
        by_environment: for each environment, who is better there: `best`, or the one teacher who
            makes up most for what `best` does badly. More than two contradict each other.
    """

    best: Teacher
    by_environment: list[Teacher]


def best_teaching(environments: Sequence[PairingEnvironment]) -> Teaching:
    """Try all teachers in all environments, and return the best of them."""
    found = np.array(
        [[follow(teacher, environment) for teacher in TEACHERS] for environment in environments]
    )
    regrets = found / found.min(axis=1, keepdims=True)
    best = int(regrets.mean(axis=0).argmin())
    second = int(np.minimum(regrets, regrets[:, [best]]).mean(axis=0).argmin())
    is_second = regrets[:, second] < regrets[:, best]
    return Teaching(TEACHERS[best], [TEACHERS[second if it else best] for it in is_second])
