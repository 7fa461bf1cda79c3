"""The node-power agent: its networks, self-attention over nodes without positions, and its manager.

They follow sections 2.2 and 4.1 and table 3 of "Improving the Efficiency of a Deep Reinforcement
Learning-Based Power Management System for HPC Clusters Using Curriculum Learning". No weight
belongs to a node, so a network takes any number of nodes and is equivariant to their order.

A file that is invalid or does not fit the features is a `PolicyError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.view import View
from hpcosim_schedulers.agents import networks
from hpcosim_schedulers.power.account import Bools
from hpcosim_schedulers.power.features import (
    CALENDAR,
    FEATURES,
    SCALES,
    Actions,
    Observation,
    Periodic,
    action_mask,
    features,
)
from hpcosim_schedulers.power.manager import Manager

FORMAT = "hpcosim node attention 1"

HEAD = (64, 32, 2)
"""Widths of the actor's last layers."""


class Shape(NamedTuple):
    """The sizes of a network.

    Attributes:
        embedding: width of the embedding of a node and of the feed-forward layers, <= 4096.
        heads: number of attention heads, a divisor of `embedding`.
        layers: number of attention layers, <= 64.
    """

    features: int = FEATURES
    embedding: int = 128
    heads: int = 8
    layers: int = 3


def actor_shapes(shape: Shape) -> networks.Shapes:
    """Return the shapes of the weights of the actor."""
    width = shape.embedding
    shapes = networks.linear_shapes("encoder.0", shape.features, width) | networks.dense_shapes(
        "head", width, *HEAD
    )
    for name in (f"encoder.{layer}" for layer in range(1, shape.layers + 1)):
        shapes |= networks.linear_shapes(f"{name}.look", width, 3 * width)
        for part in ("mix", "widen", "narrow"):
            shapes |= networks.linear_shapes(f"{name}.{part}", width, width)
        for part in ("after_look", "after_think"):
            shapes |= {f"{name}.{part}.weight": (width,), f"{name}.{part}.bias": (width,)}
    return shapes


def logits_of(shape: Shape, weights: networks.Weights, seen: Observation) -> networks.Rows:
    """Return the logits of the actions off and on for every node, float32[nodes, 2].

    Each layer has self-attention and feed-forward, each with residual and post-normalisation.

    Args:
        seen: float32[nodes, features], the observation.
    """
    nodes = networks.linear(weights, "encoder.0", seen)
    for name in (f"encoder.{layer}" for layer in range(1, shape.layers + 1)):
        attended = networks.linear(weights, f"{name}.mix", _attend(shape, weights, name, nodes))
        nodes = networks.normalised(weights, f"{name}.after_look", nodes + attended)
        wide = networks.relu(networks.linear(weights, f"{name}.widen", nodes))
        thought = networks.linear(weights, f"{name}.narrow", wide)
        nodes = networks.normalised(weights, f"{name}.after_think", nodes + thought)
    return networks.dense(weights, "head", nodes, networks.relu)


def _attend(
    shape: Shape, weights: networks.Weights, name: str, nodes: networks.Rows
) -> networks.Rows:
    """Return the scaled dot-product attention of the nodes, float32[nodes, embedding]."""
    count, width = nodes.shape
    parts = networks.linear(weights, f"{name}.look", nodes).reshape(count, 3, shape.heads, -1)
    query, key, value = parts.transpose(1, 2, 0, 3)
    scale = np.float32((width // shape.heads) ** -0.5)
    seen: networks.Rows = networks.softmax(query @ key.swapaxes(1, 2) * scale) @ value
    return seen.swapaxes(0, 1).reshape(count, width)


def best_actions(logits: networks.Rows, mask: Bools) -> Actions:
    """Return the greedy valid action of each node; on if both have the same logit.

    Args:
        logits: float32[nodes, 2].
        mask: bool[nodes, 2], the valid actions.

    Returns:
        int64[nodes], 0: off, 1: on.
    """
    valid = np.where(mask, logits, -np.inf)
    return (valid[:, 1] >= valid[:, 0]).astype(np.int64)


class NodePowerMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of an actor's file.

    Attributes:
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


def save_actor(path: Path, weights: networks.Weights, about: NodePowerMetadata) -> None:
    """Write an actor, the same bytes for the same weights. It needs the extra `rl`."""
    networks.write_network(path, weights, FORMAT, about)


def load_actor(path: Path) -> tuple[networks.Weights, NodePowerMetadata]:
    """Return the weights of an actor and its metadata."""
    about, weights = networks.read_network(path, FORMAT, NodePowerMetadata, "power manager")
    if about.scales != SCALES:
        what = f"expected features with scales of version {SCALES}, got {about.scales}"
        raise PolicyError(f"{path}: {what}; train it again")
    _check_shape(path, about)
    return networks.check_weights(path, weights, actor_shapes(about.shape)), about


def _check_shape(path: Path, about: NodePowerMetadata) -> None:
    shape = about.shape
    columns = FEATURES if about.origin_s is None else FEATURES + CALENDAR
    if shape.features != columns:
        raise PolicyError(f"{path}: expected {columns} features of a node, got {shape.features}")
    sound = 0 < shape.heads <= shape.embedding <= 4096 and 0 <= shape.layers <= 64
    if not sound or shape.embedding % shape.heads:
        what = "heads that divide an embedding of at most 4096, and at most 64 layers"
        raise PolicyError(f"{path}: expected {what}, got {shape}")


def learned(
    model: Path | str, interval_s: float | None = None, origin_s: float | None = None
) -> Manager:
    """Return the manager that takes the greedy action of a trained network for every node.

    The first decision takes place at the first call, the next one `interval_s` after each.

    Args:
        model: file of `hpcosim train power`.
        interval_s: interval between two decisions, simulated seconds; None: as in training.
        origin_s: second of the week, from Monday midnight, at which the simulation starts; None: as
            in training. Networks without calendar features ignore it.
    """
    weights, about = load_actor(Path(model))
    if about.origin_s is None or origin_s is None:
        origin_s = about.origin_s
    decisions = Periodic(about.interval_s if interval_s is None else interval_s)

    def manage(view: View) -> float | None:
        if not decisions.due(view):
            return None
        seen = features(view, decisions.account, origin_s)
        mask = action_mask(view, decisions.account)
        return decisions.decide(view, best_actions(logits_of(about.shape, weights, seen), mask))

    return manage
