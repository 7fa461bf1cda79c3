"""Adapter between the networks of a power manager and the learning algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcosim_client.job import Ints
from hpcosim_gym.learning.agent import Agent
from hpcosim_gym.learning.distributions import Evaluation, sample_switches, switches
from hpcosim_gym.learning.rollout import Sample, SideBySide
from hpcosim_papers.power.agent.network import Shape
from hpcosim_papers.power.environments.node_power import NodePowerEnv
from hpcosim_papers.power.learners.networks import NodePowerActor, NodePowerCritic, new_network
from hpcosim_papers.power.learners.settings import PowerTraining


class NodeBatch(NamedTuple):
    """Observations of several decisions.

    Attributes:
        observed: float32[decisions, nodes, features].
        allowed: bool[decisions, nodes, 2], whether a node may be off, and on.
    """

    observed: Tensor
    allowed: Tensor

    def take(self, which: Tensor) -> NodeBatch:
        """Return the selected decisions."""
        return NodeBatch(self.observed[which], self.allowed[which])


def join(parts: Sequence[NodeBatch]) -> NodeBatch:
    """Concatenate batches."""
    return NodeBatch(*(torch.cat(each) for each in zip(*parts, strict=True)))


def side_by_side(envs: Sequence[NodePowerEnv]) -> SideBySide[NodePowerEnv, NodeBatch]:
    """Return environments that run side by side; all are reset."""
    return SideBySide(envs, _observe)


def new_agent(training: PowerTraining, shape: Shape) -> Agent[NodePowerActor, NodeBatch]:
    """Return an agent with initial weights.

    Args:
        training: settings, including the seed of the weights.
        shape: sizes of the networks.
    """
    generator = torch.Generator().manual_seed(training.seed)
    actor, critic = (
        new_network(NodePowerActor, shape, generator),
        new_network(NodePowerCritic, shape, generator),
    )
    return Agent(actor, critic, _evaluate, _value, training)


def make_sampler(actor: NodePowerActor, rng: np.random.Generator) -> Sample[NodeBatch]:
    """Return a function that samples an actor's actions."""

    def sample(batch: NodeBatch, _: Ints) -> tuple[Ints, NDArray[np.float32]]:
        with torch.inference_mode():
            return sample_switches(actor(batch.observed), batch.allowed.numpy(), rng)

    return sample


def _observe(envs: Sequence[NodePowerEnv]) -> NodeBatch:
    return NodeBatch(
        torch.from_numpy(np.stack([env.observation for env in envs])),
        torch.from_numpy(np.stack([env.allowed for env in envs])),
    )


def _evaluate(actor: NodePowerActor, batch: NodeBatch, actions: Tensor) -> Evaluation:
    return switches(actor(batch.observed), actions, batch.allowed.all(dim=2))


def _value(critic: nn.Module, batch: NodeBatch) -> Tensor:
    values: Tensor = critic(batch.observed)
    return values
