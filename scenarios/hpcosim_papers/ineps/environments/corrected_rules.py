"""The choices of corrected rules in many episodes, compiled; see `Rule.choose`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Bools, Floats, Ints
from hpcosim_compiled.compiler import entry_with
from hpcosim_compiled.state import LEAVE
from hpcosim_papers.ineps.agent import forecast_features, policy
from hpcosim_papers.ineps.agent.forecast_features import CORES, COST, LEAST, REQUESTED
from hpcosim_papers.ineps.agent.policy import Rule
from hpcosim_schedulers.agents.networks import Rows

CHEAPEST, COSTLIEST = (list(policy.SCORES).index(name) for name in ("cheapest", "costliest"))


class CorrectedRules(NamedTuple):
    """Rules, and the linear networks that correct them.

    Attributes:
        score: int64[rules], index in `SCORES`.
        first: int64[rules], see `Rule`.
        least_share: float64[rules], see `Rule`.
        weight: float64[rules, columns, 2].
        bias: float64[rules, 2].
    """

    score: Ints
    first: Ints
    least_share: Floats
    weight: Floats
    bias: Floats


def corrected_rules(rules: list[Rule], weight: Floats, bias: Floats) -> CorrectedRules:
    """Return rules with their networks.

    Args:
        weight: float64[rules, 2, columns].
        bias: float64[rules, 2].
    """
    names = list(policy.SCORES)
    return CorrectedRules(
        np.array([names.index(rule.score) for rule in rules]),
        np.array([rule.first for rule in rules]),
        np.array([rule.least_share for rule in rules]),
        np.ascontiguousarray(weight.transpose(0, 2, 1)),
        bias,
    )


@entry_with(forecast_features, policy)
def choose(
    rows: Rows,
    mask: NDArray[np.int8],
    over: Bools,
    rules: CorrectedRules,
    numbers: Ints,
    space: Floats,
    actions: Ints,
) -> None:
    """Write the action of each episode; `LEAVE`: it is over.

    Args:
        rows, mask: see `PairingEpisodes`; the last action waits.
        numbers: int64[episodes], the number of the rule of each episode.
        space: float64[actions], for the scores of the affordable pairs.
        actions: int64[episodes], the result.
    """
    wait = mask.shape[1] - 1
    for place in range(len(actions)):
        if over[place]:
            actions[place] = LEAVE
            continue
        number = numbers[place]
        first, weight = rules.first[number], rules.weight[number]
        nearest, most_share, most_score, cheap = -1, -np.inf, -np.inf, False
        for action in range(wait):
            if mask[place, action] == 0:
                continue
            seen = rows[place, action]
            share, score = rules.bias[number, 0], rules.bias[number, 1]
            for column in range(len(seen)):
                share += seen[column] * weight[column, 0]
                score += seen[column] * weight[column, 1]
            share += seen[first + LEAST]
            if share > most_share:
                nearest, most_share = action, share
            space[action] = -np.inf
            if share >= rules.least_share[number]:
                cheap = True
                if rules.score[number] == CHEAPEST:
                    score -= seen[first + COST]
                elif rules.score[number] == COSTLIEST:
                    score += seen[first + COST]
                else:
                    score += np.float64(seen[REQUESTED]) * np.float64(seen[CORES])
                space[action] = score
                most_score = max(most_score, score)
        if not cheap:
            actions[place] = wait if mask[place, wait] != 0 else nearest
            continue
        best, least_cost = -1, np.inf
        for action in range(wait):
            if mask[place, action] != 0 and space[action] >= most_score - 1e-9:
                cost = rows[place, action, first + COST]
                if cost < least_cost:
                    best, least_cost = action, cost
        actions[place] = best
