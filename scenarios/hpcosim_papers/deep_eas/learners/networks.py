"""The networks of Deep-EAS in PyTorch. Policies evaluate them with NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcosim_gym.learning.weights import with_weights
from hpcosim_papers.deep_eas.agent.network import (
    FILTERS,
    SIDE,
    STRIDE,
    UNITS,
    DeepEasMetadata,
    along,
    load_deep_eas,
    mask_logits,
    pictures,
)
from hpcosim_papers.deep_eas.agent.pairs import feature_counts, pairs, queues
from hpcosim_papers.deep_eas.agent.scene import Scene
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas


class PictureNetwork(nn.Module):
    """The network of the paper (section III-C).

    A convolution of eight filters of 3 x 3 with stride 2, ReLU, and a dense layer to the actions.
    """

    def __init__(self, settings: DeepEas) -> None:
        super().__init__()
        self.settings = settings
        rows, columns = (along(size) for size in (settings.horizon, settings.width))
        self.filters = nn.Conv2d(1, FILTERS, SIDE, STRIDE)
        self.last = nn.Linear(FILTERS * rows * columns, settings.actions)

    def forward(self, scene: Scene) -> Tensor:
        """Return logits, float32[moments, actions]."""
        picture = torch.from_numpy(pictures(self.settings, scene)).to(torch.float32)
        seen = torch.relu(self.filters(picture[:, None]))
        logits: Tensor = self.last(seen.flatten(1))
        return logits


class PairsNetwork(nn.Module):
    """A network with the same layers for every pair of a machine and a slot.

    The layers also get the mean over all pairs. The logit of holding depends on the mean alone. The
    network takes any number of machines.
    """

    def __init__(self, settings: DeepEas) -> None:
        super().__init__()
        self.settings = settings
        of_pair, of_queue = feature_counts(settings)
        self.pair = nn.Sequential(
            nn.Linear(of_pair, UNITS), nn.ReLU(), nn.Linear(UNITS, UNITS), nn.ReLU()
        )
        self.all = nn.Sequential(nn.Linear(UNITS + of_queue, UNITS), nn.ReLU())
        self.both = nn.Sequential(nn.Linear(2 * UNITS, UNITS), nn.ReLU())
        self.last = nn.Linear(UNITS, 1)
        self.hold = nn.Linear(UNITS, 1)

    def forward(self, scene: Scene) -> Tensor:
        """Return logits, float32[moments, actions]."""
        of_pairs = torch.from_numpy(pairs(self.settings, scene))
        of_queue = torch.from_numpy(queues(self.settings, scene))
        each = self.pair(of_pairs)
        there = of_pairs[:, :, :1]
        mean = self.all(torch.cat([(each * there).mean(dim=1), of_queue], dim=1))
        beside = mean[:, None].expand(-1, each.shape[1], -1)
        both = self.both(torch.cat([each, beside], dim=2))
        return torch.cat([self.last(both)[:, :, 0], self.hold(mean)], dim=1)


Network = PictureNetwork | PairsNetwork


def network_of(settings: DeepEas) -> Network:
    """Return the network for the observations of the settings, with uninitialised weights."""
    return (PictureNetwork if settings.sees == "picture" else PairsNetwork)(settings)


def load_network(path: Path) -> tuple[Network, DeepEasMetadata]:
    """Return the network in a file, for evaluation, and its metadata.

    Raises:
        PolicyError: the file is invalid.
    """
    weights, about = load_deep_eas(path)
    return with_weights(network_of(about.settings), weights), about


def initialise(network: Network, generator: torch.Generator) -> None:
    """Initialise weights at random: mean 0, variance 2 / inputs; biases are 0.

    Activations then keep their variance through layers of ReLU (He et al. 2015). The weights of the
    last layers are divided by 100, so that the initial policy is almost uniform.

    Args:
        network: the network.
        generator: the only source of random numbers.
    """
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            inputs = layer.weight[0].numel()
            spread = (2.0 / inputs) ** 0.5 * (0.01 if name in {"last", "hold"} else 1.0)
            nn.init.normal_(layer.weight, 0.0, spread, generator=generator)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)


def logits_of(network: Network, scene: Scene) -> NDArray[np.float32]:
    """Return logits, float32[moments, actions]; minus infinity for masked actions."""
    with torch.inference_mode():
        logits: NDArray[np.float32] = network(scene).numpy()
    return mask_logits(network.settings, scene, logits)
