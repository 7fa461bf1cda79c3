"""Policy losses, one function for each algorithm."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from hpcosim_gym.learning.distributions import Evaluation, mean_where
from hpcosim_gym.learning.settings import TrainingSettings

Loss = Callable[[Evaluation, Tensor, Tensor], Tensor]
"""Takes the current evaluation, the log-probabilities at sampling time, float32[D, P], and the
advantages, float32[D], of D decisions with P parts; returns the mean loss of the decisions."""


def clipped_surrogate(
    evaluation: Evaluation, before: Tensor, advantages: Tensor, clip: float
) -> Tensor:
    """Return the loss of PPO (Schulman et al. 2017, equation 7).

    Each part of a decision has its own ratio and clip; all parts share the decision's advantage.
    The loss is the mean over all parts with a choice. A single ratio for all parts, a product of
    hundreds of ratios, would exceed the clip range after the first steps and stop learning.

    Args:
        evaluation: the current evaluation.
        before: float32[D, P], log-probabilities at sampling time.
        advantages: float32[D].
        clip: epsilon.
    """
    ratios, shared = (evaluation.log_probabilities - before).exp(), advantages[:, None]
    clipped = ratios.clamp(1.0 - clip, 1.0 + clip)
    return -mean_where(torch.minimum(ratios * shared, clipped * shared), evaluation.counted)


def policy_gradient(evaluation: Evaluation, _before: Tensor, advantages: Tensor) -> Tensor:
    """Return the loss of A2C and REINFORCE: minus log-probability times advantage.

    The algorithms differ in the advantages: A2C uses a critic, REINFORCE uses returns minus a
    baseline. The log-probability of a decision is the sum over its parts with a choice.
    """
    logs = (evaluation.log_probabilities * evaluation.counted).sum(dim=1)
    return -(logs * advantages).mean()


def loss_of(settings: TrainingSettings) -> Loss:
    """Return the loss function of the algorithm in the settings."""
    if settings.algorithm == "ppo":
        return partial(clipped_surrogate, clip=settings.clip)
    return policy_gradient
