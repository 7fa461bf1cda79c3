"""Proximal policy optimisation of a pairing agent (Schulman et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcosim_client.job import Floats
from hpcosim_training.pairing.agent import Agent
from hpcosim_training.pairing.rollout import Batch, Trajectory, batch_of
from hpcosim_training.pairing.settings import Hyperparameters

AT_A_TIME = 512  # decisions whose worth is judged together


class Losses(NamedTuple):
    """Means over an update.

    Attributes:
        actor, critic: what was made small.
        entropy: of a choice, nats.
    """

    actor: float
    critic: float
    entropy: float


def learn(
    agent: Agent,
    trajectories: Sequence[Trajectory],
    settings: Hyperparameters,
    rng: np.random.Generator,
) -> Losses:
    """Learn from trajectories of the agent as it is.

    Args:
        agent: who learns.
        trajectories: all of the actor as it is now.
        settings: how.
        rng: for the order of minibatches.
    """
    batch = batch_of(
        [rows for one in trajectories for rows in one.rows],
        [actions for one in trajectories for actions in one.actions],
    )
    values = _values(agent, batch)
    gains = _advantages(trajectories, values, settings)
    targets = torch.from_numpy((gains + values).astype(np.float32))
    advantages = torch.from_numpy(_normalised(gains).astype(np.float32))
    chosen = torch.tensor([choice for one in trajectories for choice in one.chosen])
    before = torch.tensor([p for one in trajectories for p in one.log_probabilities])
    sums, steps = np.zeros(3), 0
    for _ in range(settings.epochs):
        order = torch.from_numpy(rng.permutation(len(targets)))
        for some in torch.split(order, settings.minibatch):
            part = Batch(*(tensor[some] for tensor in batch))
            part = _cut(part)
            actor_loss, entropy = _actor_loss(
                agent, part, chosen[some], before[some], advantages[some], settings
            )
            critic_loss = nn.functional.mse_loss(agent.critic(*part), targets[some])
            agent.descend(actor_loss - settings.entropy * entropy, critic_loss)
            sums += (actor_loss.item(), critic_loss.item(), entropy.item())
            steps += 1
    return Losses(*(sums / max(steps, 1)).tolist())


def _cut(part: Batch) -> Batch:
    """Return it without columns that are padding to all."""
    most = int(part.there.sum(dim=1).max())
    return Batch(part.rows[:, :most], part.there[:, :most], part.actions[:, :most])


def _actor_loss(
    agent: Agent,
    part: Batch,
    chosen: Tensor,
    before: Tensor,
    advantages: Tensor,
    settings: Hyperparameters,
) -> tuple[Tensor, Tensor]:
    """Return the clipped surrogate loss, equation 7 of the paper, and the mean entropy."""
    logs = torch.log_softmax(agent.actor(part.rows, part.there), dim=1)
    ratios = (logs.gather(1, chosen[:, None])[:, 0] - before).exp()
    clipped = ratios.clamp(1.0 - settings.clip, 1.0 + settings.clip)
    loss = -torch.minimum(ratios * advantages, clipped * advantages).mean()
    logs = logs.masked_fill(~part.there, 0.0)
    return loss, -(logs.exp() * logs * part.there).sum(dim=1).mean()


def _values(agent: Agent, batch: Batch) -> Floats:
    with torch.inference_mode():
        parts = [
            agent.critic(*(tensor[first : first + AT_A_TIME] for tensor in batch))
            for first in range(0, len(batch.rows), AT_A_TIME)
        ]
    values: NDArray[np.float32] = torch.cat(parts).numpy()
    return np.asarray(values, dtype=np.float64)


def _advantages(
    trajectories: Sequence[Trajectory], values: Floats, settings: Hyperparameters
) -> Floats:
    """Return the generalised advantage estimates of all decisions, in their order."""
    gains = np.zeros(len(values))
    last = len(values)
    for trajectory in reversed(trajectories):
        gain, worth = 0.0, 0.0  # a run that is over is worth nothing more
        for reward in reversed(trajectory.rewards):
            last -= 1
            gain *= settings.discount * settings.trace
            gain += reward + settings.discount * worth - values[last]
            gains[last], worth = gain, values[last]
    return gains


def _normalised(gains: Floats) -> Floats:
    normal: Floats = (gains - gains.mean()) / (gains.std() + 1e-8)
    return normal
