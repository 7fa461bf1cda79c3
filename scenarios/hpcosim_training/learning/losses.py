"""Losses of an actor, one function for each algorithm, all for the same update."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from hpcosim_training.learning.distributions import Evaluation, mean_where
from hpcosim_training.learning.settings import TrainingSettings

Loss = Callable[[Evaluation, Tensor, Tensor], Tensor]
"""Takes what the actor says now, the log-probabilities when the actions were drawn, float32[D, P],
and the advantages, float32[D]; returns the loss, the mean over the decisions."""


def clipped_surrogate(
    evaluation: Evaluation, before: Tensor, advantages: Tensor, clip: float
) -> Tensor:
    """Return the loss of PPO (Schulman et al. 2017, equation 7).

    Each part of a decision has a ratio and a clip of its own, under the advantage that all parts
    share, and the loss is the mean over all parts with a choice. One ratio for all parts, the
    product of a hundred, would leave the clip at once, and nothing would be learned from it.

    Args:
        evaluation: what the actor says now.
        before: the log-probabilities when the actions were drawn, float32[D, P].
        advantages: float32[D].
        clip: epsilon.
    """
    ratios, shared = (evaluation.log_probabilities - before).exp(), advantages[:, None]
    clipped = ratios.clamp(1.0 - clip, 1.0 + clip)
    return -mean_where(torch.minimum(ratios * shared, clipped * shared), evaluation.counted)


def policy_gradient(evaluation: Evaluation, _before: Tensor, advantages: Tensor) -> Tensor:
    """Return the loss of A2C and of REINFORCE: minus log-probability times advantage.

    The two differ in the advantages: those of A2C come from a critic, those of REINFORCE are
    returns, minus a baseline. The log-probability of a decision is the sum over its parts with a
    choice.
    """
    logs = (evaluation.log_probabilities * evaluation.counted).sum(dim=1)
    return -(logs * advantages).mean()


def loss_of(settings: TrainingSettings) -> Loss:
    """Return the loss of the algorithm of some settings."""
    if settings.algorithm == "ppo":
        return partial(clipped_surrogate, clip=settings.clip)
    return policy_gradient
