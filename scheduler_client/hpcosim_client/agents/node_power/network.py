"""The networks that look at all nodes at once: self-attention without positions.

As in sections 2.2 and 4.1 and Table 3 of "Improving the Efficiency of a Deep Reinforcement
Learning-Based Power Management System for HPC Clusters Using Curriculum Learning". No weight
belongs to a node: a network takes any number of them, and when they change places, so do its
answers.
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
        features: columns of an observation.
        embedding: width of what is known of a node inside, and of each feed-forward.
        heads: heads of each attention; they divide `embedding`.
        layers: how many times the nodes look at each other.
    """

    features: int = FEATURES
    embedding: int = 128
    heads: int = 8
    layers: int = 3


class Layer(nn.Module):
    """Self-attention and a feed-forward, each with a residual and a normalisation after it."""

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
        """Take and return float32[batch, nodes, embedding]."""
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


class Actor(nn.Module):
    """Says for every node how much speaks for off, and how much for on."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.encoder = _encoder(shape)
        self.head = dense(nn.ReLU, shape.embedding, 64, 32, 2)

    def forward(self, seen: Tensor) -> Tensor:
        """Return logits, float32[batch, nodes, 2], for float32[batch, nodes, features]."""
        logits: Tensor = self.head(self.encoder(seen))
        return logits


class Critic(nn.Module):
    """Says what a state is worth: the mean over its nodes of what each adds."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.encoder = _encoder(shape)
        self.head = dense(nn.ReLU, shape.embedding, 20, 20, 1)

    def forward(self, seen: Tensor) -> Tensor:
        """Return values, float32[batch], for float32[batch, nodes, features]."""
        values: Tensor = self.head(self.encoder(seen)).mean(dim=(1, 2))
        return values


AnyNetwork = TypeVar("AnyNetwork", Actor, Critic)


def new_network(kind: type[AnyNetwork], shape: Shape, generator: torch.Generator) -> AnyNetwork:
    """Return an untrained network.

    Its weights are drawn from this generator alone (Glorot, Bengio 2010); biases are 0.
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


def best_actions(actor: Actor, seen: Observation, mask: Bools) -> Actions:
    """Return the more probable of what may be asked of each node; on, where they are equal.

    Args:
        actor: the network.
        seen: float32[nodes, features].
        mask: bool[nodes, 2], what may be asked.

    Returns:
        int64[nodes], 0: off, 1: on.
    """
    with torch.inference_mode():
        logits = actor(torch.from_numpy(seen)[None])[0].numpy()
    logits = np.where(mask, logits, -np.inf)
    return (logits[:, 1] >= logits[:, 0]).astype(np.int64)


# Files


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says of the actor in it.

    Attributes:
        shape: its sizes.
        scales: the version of the scales of its features, `features.SCALES`.
        interval_s: seconds between two decisions it was trained with.
        origin_s: see `features.features`; None: it knows no calendar.
        training: how it was trained, for whoever wants to know.
    """

    shape: Shape = Shape()
    scales: int = SCALES
    interval_s: float = 1800.0
    origin_s: float | None = None
    training: Mapping[str, str | int | float | bool] = {}


def save_actor(path: Path, actor: Actor, about: About) -> None:
    """Write an actor, safetensors, the same bytes for the same actor.

    Raises:
        OSError: the file can't be written.
    """
    write_network(path, actor.state_dict(), FORMAT, about)


def load_actor(path: Path) -> tuple[Actor, About]:
    """Return the actor in a file, and what the file says of it.

    Raises:
        PolicyError: there is none; it says which file, and what would be right.
    """
    about, tensors = read_network(path, FORMAT, About, "power manager")
    if about.scales != SCALES:
        what = f"was trained on features of scales {about.scales}; these are of {SCALES}"
        raise PolicyError(f"{path} {what}: train it anew")
    _check_shape(path, about)
    return with_weights(path, lambda: Actor(about.shape), tensors), about


def _check_shape(path: Path, about: About) -> None:
    shape = about.shape
    columns = FEATURES if about.origin_s is None else FEATURES + CALENDAR
    if shape.features != columns:
        raise PolicyError(f"{path} takes {shape.features} features of a node; it gets {columns}")
    sound = 0 < shape.heads <= shape.embedding <= 4096 and 0 <= shape.layers <= 64
    if not sound or shape.embedding % shape.heads:
        what = "heads must divide the embedding, 4096 at most, and layers be 64 at most"
        raise PolicyError(f"{path} has a network of {shape}: {what}")
