"""The networks of Deep-EAS as the learning algorithms take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hpcosim_client.agents.deep_eas.network import Network, draw, network_of
from hpcosim_client.agents.deep_eas.scene import Scene, joined
from hpcosim_training.learners.deep_eas.critic import Critic, draw_critic, features_of
from hpcosim_training.learners.deep_eas.settings import DeepEasTraining
from hpcosim_training.learning.agent import Agent
from hpcosim_training.learning.distributions import Evaluation, categorical


class SceneBatch(NamedTuple):
    """What is observed in several decisions.

    Attributes:
        scene: what the actor observes.
        watched: float32[decisions, features], what the critic observes, see `critic.watch`.
        step: int64[decisions], when.
    """

    scene: Scene
    watched: Tensor
    step: Tensor

    def take(self, which: Tensor) -> SceneBatch:
        """Return some of the decisions."""
        return SceneBatch(self.scene.some(which.numpy()), self.watched[which], self.step[which])


def join(parts: Sequence[SceneBatch]) -> SceneBatch:
    """Return the decisions of all parts."""
    scenes, watched, steps = zip(*parts, strict=True)
    return SceneBatch(joined(scenes), torch.cat(watched), torch.cat(steps))


def new_agent(training: DeepEasTraining, machines: int) -> Agent[Network, SceneBatch]:
    """Return an untrained agent; with REINFORCE it has no critic.

    Args:
        training: its settings, and the seed of its weights.
        machines: how many machines there are.
    """
    generator = torch.Generator().manual_seed(training.seed)
    network = network_of(training.settings)
    draw(network, generator)
    if training.algorithm == "reinforce":
        return Agent(network, None, evaluate, _value, training)
    critic = Critic(features_of(machines))
    draw_critic(critic, generator)
    return Agent(network, critic, evaluate, _value, training)


def evaluate(network: Network, batch: SceneBatch, actions: Tensor) -> Evaluation:
    """Return what a network says of actions."""
    logits = network(batch.scene)
    if network.settings.masked:
        logits = logits.masked_fill(torch.from_numpy(~batch.scene.possible()), -torch.inf)
    return categorical(logits, actions)


def _value(critic: nn.Module, batch: SceneBatch) -> Tensor:
    values: Tensor = critic(batch.watched)
    return values
