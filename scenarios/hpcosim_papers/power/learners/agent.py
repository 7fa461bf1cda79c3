"""Adapter between the networks of a power manager and the learning algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from hpcosim_client.job import Ints
from hpcosim_gym.learning.agent import Agent
from hpcosim_gym.learning.distributions import Evaluation, sample_switches, switches
from hpcosim_gym.learning.layers import dense
from hpcosim_gym.learning.rollout import Sample, SideBySide
from hpcosim_papers.power.agent.network import HEAD, Shape
from hpcosim_papers.power.environments.node_power import NodePowerEnv
from hpcosim_papers.power.learners.settings import PowerTraining

# The networks of the node-power agent in PyTorch. Policies evaluate actors with NumPy.


class Layer(nn.Module):
    """A layer of self-attention and feed-forward, each with residual and post-normalisation."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.embedding
        self.heads = shape.heads
        self.look = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.widen = nn.Linear(width, width)
        self.narrow = nn.Linear(width, width)
        self.after_look = nn.LayerNorm(width)
        self.after_think = nn.LayerNorm(width)

    def forward(self, nodes: Tensor) -> Tensor:
        """Map float32[batch, nodes, embedding] to the same shape."""
        nodes = self.after_look(nodes + self.mix(self._attend(nodes)))
        thought: Tensor = self.narrow(functional.relu(self.widen(nodes)))
        after: Tensor = self.after_think(nodes + thought)
        return after

    def _attend(self, nodes: Tensor) -> Tensor:
        batch, count, width = nodes.shape
        parts = self.look(nodes).view(batch, count, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value)
        return seen.transpose(1, 2).reshape(batch, count, width)


def _encoder(shape: Shape) -> nn.Sequential:
    embed = nn.Linear(shape.features, shape.embedding)
    return nn.Sequential(embed, *(Layer(shape) for _ in range(shape.layers)))


class NodePowerActor(nn.Module):
    """The actor: logits of the actions off and on for every node."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.encoder = _encoder(shape)
        self.head = dense(nn.ReLU, shape.embedding, *HEAD)

    def forward(self, seen: Tensor) -> Tensor:
        """Return logits, float32[batch, nodes, 2], for float32[batch, nodes, features]."""
        logits: Tensor = self.head(self.encoder(seen))
        return logits


class NodePowerCritic(nn.Module):
    """The critic: the value of a state is the mean of an output for each node."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.encoder = _encoder(shape)
        self.head = dense(nn.ReLU, shape.embedding, 20, 20, 1)

    def forward(self, seen: Tensor) -> Tensor:
        """Return values, float32[batch], for float32[batch, nodes, features]."""
        values: Tensor = self.head(self.encoder(seen)).mean(dim=(1, 2))
        return values


AnyNetwork = TypeVar("AnyNetwork", NodePowerActor, NodePowerCritic)


def new_network(kind: type[AnyNetwork], shape: Shape, generator: torch.Generator) -> AnyNetwork:
    """Return an untrained network with random weights (Glorot, Bengio 2010) and biases of 0.

    Args:
        kind: class of the network.
        shape: sizes of the network.
        generator: the only source of random numbers.
    """
    with torch.device("meta"):
        network = kind(shape)
    network.to_empty(device="cpu")
    for part in network.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight, generator=generator)
            nn.init.zeros_(part.bias)
        elif isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
            nn.init.zeros_(part.bias)
    return network


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
