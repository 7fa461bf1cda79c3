"""The networks of the node-power agent: self-attention over nodes without positions.

They follow sections 2.2 and 4.1 and table 3 of "Improving the Efficiency of a Deep Reinforcement
Learning-Based Power Management System for HPC Clusters Using Curriculum Learning". No weight
belongs to a node, so a network takes any number of nodes and is equivariant to their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from hpcosim_client.agents.layers import dense
from hpcosim_client.agents.networks_file import read_network, with_weights, write_network
from hpcosim_client.errors import PolicyError
from hpcosim_client.power.account import Bools
from hpcosim_client.power.features import CALENDAR, FEATURES, SCALES, Observation
from hpcosim_client.power.periodic import Actions

FORMAT = "hpcosim node attention 1"


class Shape(NamedTuple):
    """The sizes of a network.

    Attributes:
        features: number of columns of an observation.
        embedding: width of the embedding of a node and of the feed-forward layers, <= 4096.
        heads: number of attention heads, a divisor of `embedding`.
        layers: number of attention layers, <= 64.
    """

    features: int = FEATURES
    embedding: int = 128
    heads: int = 8
    layers: int = 3


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
        self.head = dense(nn.ReLU, shape.embedding, 64, 32, 2)

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


def best_actions(actor: NodePowerActor, seen: Observation, mask: Bools) -> Actions:
    """Return the greedy valid action of each node; on if both have the same logit.

    Args:
        actor: the network.
        seen: float32[nodes, features], the observation.
        mask: bool[nodes, 2], the valid actions.

    Returns:
        int64[nodes], 0: off, 1: on.
    """
    with torch.inference_mode():
        logits = actor(torch.from_numpy(seen)[None])[0].numpy()
    logits = np.where(mask, logits, -np.inf)
    return (logits[:, 1] >= logits[:, 0]).astype(np.int64)


# Files


class NodePowerMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of an actor's file.

    Attributes:
        shape: sizes of the network.
        scales: version of the scales of the features, `features.SCALES`.
        interval_s: interval between two decisions in training, simulated seconds.
        origin_s: see `features.features`; None: no calendar features.
        training: settings and results of the training, for information.
    """

    shape: Shape = Shape()
    scales: int = SCALES
    interval_s: float = 1800.0
    origin_s: float | None = None
    training: Mapping[str, str | int | float | bool] = {}


def save_actor(path: Path, actor: NodePowerActor, about: NodePowerMetadata) -> None:
    """Write an actor, the same bytes for the same actor.

    Raises:
        OSError: the file cannot be written.
    """
    write_network(path, actor.state_dict(), FORMAT, about)


def load_actor(path: Path) -> tuple[NodePowerActor, NodePowerMetadata]:
    """Read an actor and its metadata.

    Raises:
        PolicyError: the file is invalid, or the actor does not fit the present features.
    """
    about, tensors = read_network(path, FORMAT, NodePowerMetadata, "power manager")
    if about.scales != SCALES:
        what = f"expected features with scales of version {SCALES}, got {about.scales}"
        raise PolicyError(f"{path}: {what}; train it again")
    _check_shape(path, about)
    return with_weights(path, lambda: NodePowerActor(about.shape), tensors), about


def _check_shape(path: Path, about: NodePowerMetadata) -> None:
    shape = about.shape
    columns = FEATURES if about.origin_s is None else FEATURES + CALENDAR
    if shape.features != columns:
        raise PolicyError(f"{path}: expected {columns} features of a node, got {shape.features}")
    sound = 0 < shape.heads <= shape.embedding <= 4096 and 0 <= shape.layers <= 64
    if not sound or shape.embedding % shape.heads:
        what = "heads that divide an embedding of at most 4096, and at most 64 layers"
        raise PolicyError(f"{path}: expected {what}, got {shape}")
