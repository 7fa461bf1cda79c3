"""Updates: epochs of minibatches over a rollout or over demonstrations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from hpcosim_client.job import Floats
from hpcosim_gym.learning.agent import Agent
from hpcosim_gym.learning.distributions import mean_where
from hpcosim_gym.learning.losses import Loss, loss_of, policy_gradient
from hpcosim_gym.learning.returns import discounted_returns, generalised_advantages
from hpcosim_gym.learning.rollout import Observations, Rollout
from hpcosim_gym.learning.settings import TrainingSettings

Obs = TypeVar("Obs", bound=Observations)

MAX_FORWARD_BATCH = 1024  # decisions in one forward pass; bounds the memory
CLONING_MINIBATCH = 64


class Losses(NamedTuple):
    """Mean losses over the optimiser steps; NaN: not computed.

    Attributes:
        policy: policy loss, without the entropy term.
        value: mean squared error of the critic.
        entropy: mean entropy of a decision, nats.
    """

    policy: float = np.nan
    value: float = np.nan
    entropy: float = np.nan


def learn(
    agent: Agent[Any, Obs],
    rollout: Rollout[Obs],
    settings: TrainingSettings,
    rng: np.random.Generator,
    remaining: float,
) -> Losses:
    """Update an agent from its own rollout.

    Args:
        agent: the agent.
        rollout: the rollout, sampled with the current actor.
        settings: settings of the training.
        rng: generator that shuffles the minibatches.
        remaining: remaining fraction of the training, 1 to 0.
    """
    values = _values(agent, rollout.observations, len(rollout))
    last = np.zeros(len(rollout.truncated))
    if rollout.final is not None:
        last[rollout.truncated] = _values(agent, rollout.final, int(rollout.truncated.sum()))
    advantages = generalised_advantages(
        rollout.rewards, values, rollout.episode, last, settings.discount, settings.gae_lambda
    )
    targets = advantages + values
    if settings.normalise_advantages and len(advantages) > 1:
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    if settings.anneal:
        entropy_coefficient = remaining * settings.entropy_coefficient
        settings = replace(settings, entropy_coefficient=entropy_coefficient)
    loss = loss_of(settings)
    steps = _update(agent, rollout, _tensor(advantages), _tensor(targets), loss, settings, rng)
    return mean_losses(list(steps))


def behaviour_cloning(
    agent: Agent[Any, Obs],
    demonstrations: Rollout[Obs],
    settings: TrainingSettings,
    rng: np.random.Generator,
) -> Losses:
    """Update an agent by behaviour cloning: the actor learns the actions, the critic their returns.

    Args:
        agent: the agent.
        demonstrations: whole episodes; their log-probabilities are ignored.
        settings: discount of the returns, and number of epochs.
        rng: generator that shuffles the minibatches.

    Returns:
        The mean losses of the last epoch; the policy loss is the cross-entropy, nats.
    """
    last = np.zeros(len(demonstrations.truncated))
    returns = discounted_returns(
        demonstrations.rewards, demonstrations.episode, last, settings.discount
    )
    epochs, same = settings.cloning_epochs, torch.ones(len(demonstrations))
    cloning = replace(
        settings, epochs=epochs, minibatch=CLONING_MINIBATCH, entropy_coefficient=0.0, max_kl=None
    )
    targets = _tensor(returns)
    steps = list(_update(agent, demonstrations, same, targets, policy_gradient, cloning, rng))
    return mean_losses(steps[-(len(steps) // epochs) :])


def mean_losses(steps: list[Losses]) -> Losses:
    """Return the mean of several losses."""
    return Losses(*np.mean(steps, axis=0).tolist()) if steps else Losses()


def _update(
    agent: Agent[Any, Obs],
    rollout: Rollout[Obs],
    advantages: Tensor,
    targets: Tensor,
    loss: Loss,
    settings: TrainingSettings,
    rng: np.random.Generator,
) -> Iterator[Losses]:
    """Run the epochs, and yield the losses of each optimiser step."""
    for _ in range(settings.epochs):
        order = torch.from_numpy(rng.permutation(len(rollout)))
        kls = []
        for rows in torch.split(order, settings.minibatch or len(rollout)):
            losses, kl = _step(
                agent, rollout, advantages, targets, rows, loss, settings.entropy_coefficient
            )
            kls.append(kl)
            yield losses
        if settings.max_kl is not None and np.mean(kls) > settings.max_kl:
            return


def _step(
    agent: Agent[Any, Obs],
    rollout: Rollout[Obs],
    advantages: Tensor,
    targets: Tensor,
    rows: Tensor,
    loss: Loss,
    entropy_coefficient: float,
) -> tuple[Losses, float]:
    """Take an optimiser step; return the losses and the mean approximate KL divergence."""
    sums, kl = np.zeros(3), 0.0
    for some in torch.split(rows, MAX_FORWARD_BATCH):
        share = len(some) / len(rows)
        observations = rollout.observations.take(some)
        before = rollout.log_probabilities[some]
        evaluation = agent.evaluate(observations, rollout.actions[some])
        policy = loss(evaluation, before, advantages[some])
        entropy = mean_where(evaluation.entropies, evaluation.counted)
        (share * (policy - entropy_coefficient * entropy)).backward()  # type: ignore[no-untyped-call]
        value = torch.tensor(torch.nan)
        if agent.critic is not None:
            value = nn.functional.mse_loss(agent.value(observations), targets[some])
            (share * value).backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            moved = mean_where(before - evaluation.log_probabilities, evaluation.counted)
        sums += share * np.array([policy.item(), value.item(), entropy.item()])
        kl += share * moved.item()
    agent.descend()
    return Losses(*sums.tolist()), kl


def _values(agent: Agent[Any, Obs], observations: Obs, count: int) -> Floats:
    """Return the critic's values, float64[decisions]; 0 without a critic."""
    if agent.critic is None:
        return np.zeros(count)
    with torch.inference_mode():
        parts = [
            agent.value(observations.take(rows))
            for rows in torch.split(torch.arange(count), MAX_FORWARD_BATCH)
        ]
    return np.asarray(torch.cat(parts).numpy(), dtype=np.float64)


def _tensor(values: Floats) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))
