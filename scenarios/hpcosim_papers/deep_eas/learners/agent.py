"""Adapter between the networks of Deep-EAS and the learning algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hpcosim_gym.learning.agent import Agent
from hpcosim_gym.learning.distributions import Evaluation, categorical
from hpcosim_papers.deep_eas.agent.scene import Scene, joined
from hpcosim_papers.deep_eas.learners.critic import (
    DeepEasCritic,
    critic_feature_count,
    initialise_critic,
)
from hpcosim_papers.deep_eas.learners.networks import Network, initialise, network_of
from hpcosim_papers.deep_eas.learners.settings import DeepEasTraining


class SceneBatch(NamedTuple):
    """Observations of several decisions.

    Attributes:
        scene: observation of the actor.
        critic_input: float32[decisions, features], observation of the critic, see
            `critic.critic_features`.
        step: int64[decisions], the step of each decision.
    """

    scene: Scene
    critic_input: Tensor
    step: Tensor

    def take(self, which: Tensor) -> SceneBatch:
        """Return the selected decisions."""
        scene = self.scene.some(which.numpy())
        return SceneBatch(scene, self.critic_input[which], self.step[which])


def join(parts: Sequence[SceneBatch]) -> SceneBatch:
    """Concatenate batches."""
    scenes, critic_input, steps = zip(*parts, strict=True)
    return SceneBatch(joined(scenes), torch.cat(critic_input), torch.cat(steps))


def new_agent(training: DeepEasTraining, machines: int) -> Agent[Network, SceneBatch]:
    """Return an agent with initial weights; REINFORCE has no critic.

    Args:
        training: settings, including the seed of the weights.
        machines: number of machines.
    """
    generator = torch.Generator().manual_seed(training.seed)
    network = network_of(training.settings)
    initialise(network, generator)
    if training.algorithm == "reinforce":
        return Agent(network, None, evaluate, _value, training)
    critic = DeepEasCritic(critic_feature_count(machines))
    initialise_critic(critic, generator)
    return Agent(network, critic, evaluate, _value, training)


def evaluate(network: Network, batch: SceneBatch, actions: Tensor) -> Evaluation:
    """Evaluate actions under a network."""
    logits = network(batch.scene)
    if network.settings.masked:
        logits = logits.masked_fill(torch.from_numpy(~batch.scene.possible()), -torch.inf)
    return categorical(logits, actions)


def _value(critic: nn.Module, batch: SceneBatch) -> Tensor:
    values: Tensor = critic(batch.critic_input)
    return values
