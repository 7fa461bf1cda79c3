"""The network of Deep-EAS (paper, section III-C)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hpcosim_client.agents.deep_eas.settings import DeepEas

FILTERS = 8
SIDE = 3
STRIDE = 2


class DeepEasNetwork(nn.Module):
    """Eight filters of 3 x 3, stride 2, ReLU, and one dense layer to the actions.

    Args:
        settings: the picture's measures.
    """

    def __init__(self, settings: DeepEas) -> None:
        super().__init__()
        rows, columns = (_along(size) for size in (settings.horizon, settings.width))
        self.filters = nn.Conv2d(1, FILTERS, SIDE, STRIDE)
        self.dense = nn.Linear(FILTERS * rows * columns, settings.actions)

    def forward(self, pictures: Tensor) -> Tensor:
        """Return logits, float32[batch, actions], of float32[batch, horizon, width]."""
        seen = torch.relu(self.filters(pictures[:, None]))
        logits: Tensor = self.dense(seen.flatten(1))
        return logits


def _along(size: int) -> int:
    return (size - SIDE) // STRIDE + 1


def draw(network: DeepEasNetwork, generator: torch.Generator) -> None:
    """Draw weights from this generator alone: mean 0, variance 2 / inputs; biases are 0.

    So activations keep their size through a layer of ReLU (He et al. 2015). The last layer's are
    a hundredth of that, for an agent that begins with no preference.
    """
    inputs = SIDE * SIDE
    nn.init.normal_(network.filters.weight, 0.0, (2.0 / inputs) ** 0.5, generator=generator)
    last = 0.01 * network.dense.in_features**-0.5
    nn.init.normal_(network.dense.weight, 0.0, last, generator=generator)
    for layer in (network.filters, network.dense):
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
