"""The networks of Deep-EAS and their files: one for pictures, as in the paper, one for pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from hpcosim_papers.deep_eas.agent.pairs import feature_counts, pairs, queues
from hpcosim_papers.deep_eas.agent.scene import Counts, Scene
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas
from hpcosim_schedulers.agents.layers import (
    Rows,
    Shapes,
    Weights,
    dense,
    dense_shapes,
    linear,
    linear_shapes,
    relu,
)
from hpcosim_schedulers.agents.networks_file import check_weights, read_network, write_network

# The binary picture that Deep-EAS observes; a row is a step (paper, section II-B, figure 2).

Picture = NDArray[np.bool_]


def pictures(settings: DeepEas, scene: Scene) -> Picture:
    """Return the picture of each moment, bool[moments, horizon, width]."""
    column = np.arange(settings.cores)
    rows = np.arange(settings.horizon)[:, None, None, None]
    plans = column < scene.used.swapaxes(1, 2)[..., None]
    # moments, horizon, queue, machines, cores
    jobs = (rows < scene.steps.swapaxes(1, 2)[:, None, :, :, None]) & (
        column < scene.cores[:, None, :, None, None]
    )
    parts = [part.reshape(scene.moments, settings.horizon, -1) for part in (plans, jobs)]
    parts.append(_line(scene.behind, settings.backlog, settings.horizon))
    parts.append(_line(scene.since_arrival, settings.since_arrival, settings.horizon))
    return np.concatenate(parts, axis=2)


def _line(counts: Counts, most: int, horizon: int) -> Picture:
    line = np.arange(most) < counts[:, None]
    return line.reshape(len(counts), -1, horizon).swapaxes(1, 2)


FORMAT = "hpcosim deep-eas 1"

FILTERS = 8
SIDE = 3
STRIDE = 2
UNITS = 48

LogitsOf = Callable[[Scene], Rows]
"""A network: returns logits, float32[moments, actions]; minus infinity for masked actions."""


def network_shapes(settings: DeepEas) -> Shapes:
    """Return the shapes of the weights of the network for the observations of the settings."""
    if settings.sees == "picture":
        inputs = FILTERS * along(settings.horizon) * along(settings.width)
        filters: Shapes = {"filters.weight": (FILTERS, 1, SIDE, SIDE), "filters.bias": (FILTERS,)}
        return filters | linear_shapes("last", inputs, settings.actions)
    of_pair, of_queue = feature_counts(settings)
    return {
        **dense_shapes("pair", of_pair, UNITS, UNITS),
        **dense_shapes("all", UNITS + of_queue, UNITS),
        **dense_shapes("both", 2 * UNITS, UNITS),
        **linear_shapes("last", UNITS, 1),
        **linear_shapes("hold", UNITS, 1),
    }


def network_of(settings: DeepEas, weights: Weights) -> LogitsOf:
    """Return the network with given weights."""
    logits_of = _of_picture if settings.sees == "picture" else _of_pairs
    return lambda scene: mask_logits(settings, scene, logits_of(settings, weights, scene))


def mask_logits(settings: DeepEas, scene: Scene, logits: Rows) -> Rows:
    """Return logits with minus infinity for masked actions."""
    return np.where(scene.possible(), logits, -np.inf) if settings.masked else logits


def _of_picture(settings: DeepEas, weights: Weights, scene: Scene) -> Rows:
    """Return the logits of the paper's network (section III-C).

    A convolution of eight filters of 3 x 3 with stride 2, ReLU, and a dense layer to the actions.
    """
    picture = pictures(settings, scene).astype(np.float32)
    windows = sliding_window_view(picture, (SIDE, SIDE), axis=(1, 2))[:, ::STRIDE, ::STRIDE]
    patches = windows.reshape(scene.moments, -1, SIDE * SIDE)
    filters = weights["filters.weight"].reshape(FILTERS, -1)
    seen = relu(patches @ filters.T + weights["filters.bias"]).swapaxes(1, 2)
    return linear(weights, "last", seen.reshape(scene.moments, -1))


def _of_pairs(settings: DeepEas, weights: Weights, scene: Scene) -> Rows:
    """Return the logits of a network with the same layers for every pair of machine and slot.

    The layers also get the mean over all pairs. The logit of holding depends on the mean alone. The
    network takes any number of machines.
    """
    of_pairs, of_queue = pairs(settings, scene), queues(settings, scene)
    each = relu(dense(weights, "pair", of_pairs, relu))
    mean = (each * of_pairs[:, :, :1]).mean(axis=1)
    mean = relu(dense(weights, "all", np.concatenate([mean, of_queue], axis=1), relu))
    beside = np.broadcast_to(mean[:, None], each.shape)
    both = relu(dense(weights, "both", np.concatenate([each, beside], axis=2), relu))
    of_pair = linear(weights, "last", both)[:, :, 0]
    return np.concatenate([of_pair, linear(weights, "hold", mean)], axis=1)


def along(size: int) -> int:
    """Return the number of places of a filter along a side of the picture."""
    return (size - SIDE) // STRIDE + 1


# Files


class DeepEasMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of a network's file.

    Attributes:
        settings: settings of actions and observations.
        training: settings and results of the training, for information.
    """

    settings: DeepEas
    training: Mapping[str, str | int | float | bool] = {}


def save_deep_eas(path: Path, weights: Weights, about: DeepEasMetadata) -> None:
    """Write a network, the same bytes for the same weights. It needs the extra `rl`.

    Raises:
        OSError: the file cannot be written.
    """
    write_network(path, weights, FORMAT, about)


def load_deep_eas(path: Path) -> tuple[Weights, DeepEasMetadata]:
    """Return the weights of a network and its metadata.

    Raises:
        PolicyError: the file is invalid.
    """
    about, weights = read_network(path, FORMAT, DeepEasMetadata, "Deep-EAS agent")
    return check_weights(path, weights, network_shapes(about.settings)), about
