"""Returns and advantages of decisions. The decisions of an episode lie one behind the other.

All functions take, for D decisions of E episodes:

- rewards: float64[D].
- episode: int64[D], the number of each decision's episode.
- last_values: float64[E], the value of the state after the last decision of each episode; 0 where
  the episode is over.
- discount: gamma, 0 to 1.
"""

from __future__ import annotations

import numpy as np

from hpcosim_client.job import Floats, Ints


def discounted_returns(
    rewards: Floats, episode: Ints, last_values: Floats, discount: float
) -> Floats:
    """Return the discounted sum of the rewards from each decision on, float64[D]."""
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
        values: float64[D], the critic's values of the states that were decided in.
        episode: see the module.
        last_values: see the module.
        discount: see the module.
        gae_lambda: lambda, 0 to 1. At 1 an advantage is the return minus the value, at 0 the
            temporal-difference error.
    """
    advantages = np.zeros(len(rewards))
    later, next_value, following = 0.0, 0.0, -1
    steps = zip(rewards.tolist(), values.tolist(), episode.tolist(), strict=True)
    for at, (reward, value, number) in reversed(list(enumerate(steps))):
        if number != following:  # the last decision of its episode
            later, next_value, following = 0.0, float(last_values[number]), number
        later = reward + discount * (next_value + gae_lambda * later) - value
        advantages[at], next_value = later, value
    return advantages
