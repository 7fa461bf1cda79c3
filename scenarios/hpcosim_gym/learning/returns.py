"""Returns and advantages. The decisions of an episode are consecutive.

Arguments of all functions, for D decisions of E episodes:

- rewards: float64[D].
- episode: int64[D], the episode of each decision.
- last_values: float64[E], value of the state after the last decision of each episode; 0 for
  terminated episodes.
- discount: gamma, 0 to 1.
"""

from __future__ import annotations

import numpy as np

from hpcosim_client.job import Floats, Ints


def discounted_returns(
    rewards: Floats, episode: Ints, last_values: Floats, discount: float
) -> Floats:
    """Return the discounted return of each decision, float64[D]."""
    return generalised_advantages(
        rewards, np.zeros(len(rewards)), episode, last_values, discount, gae_lambda=1.0
    )


def generalised_advantages(
    rewards: Floats,
    values: Floats,
    episode: Ints,
    last_values: Floats,
    discount: float,
    gae_lambda: float,
) -> Floats:
    """Return generalised advantage estimates, float64[D] (Schulman et al. 2016, equation 16).

    Args:
        rewards: see the module.
        values: float64[D], the critic's values of the decisions' states.
        episode: see the module.
        last_values: see the module.
        discount: see the module.
        gae_lambda: lambda, 0 to 1. At 1 an advantage is the return minus the value, at 0 the
            temporal-difference error.
    """
    advantages = np.zeros(len(rewards))
    advantage, next_value, following = 0.0, 0.0, -1
    steps = zip(rewards.tolist(), values.tolist(), episode.tolist(), strict=True)
    for at, (reward, value, number) in reversed(list(enumerate(steps))):
        if number != following:  # the last decision of its episode
            advantage, next_value, following = 0.0, float(last_values[number]), number
        advantage = reward + discount * (next_value + gae_lambda * advantage) - value
        advantages[at], next_value = advantage, value
    return advantages
