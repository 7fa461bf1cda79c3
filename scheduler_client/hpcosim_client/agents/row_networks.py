"""Networks that score rows: they take any number of actions, each described by a row of features.

The inputs are a batch of decisions:

- rows, float32[batch, choices, features]: features of the valid actions, padded with zeros;
- there, bool[batch, choices]: false for padding;
- actions, int64[batch, choices]: numbers of the actions; 0 for padding.

An actor returns logits, float32[batch, choices], minus infinity for padding. A critic returns the
value of each state, float32[batch].
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcosim_client.agents.layers import dense


class RowActor(nn.Module, ABC):
    """Base class of actors."""

    def forward(self, rows: Tensor, there: Tensor) -> Tensor:
        """Return logits; see the module."""
        return self.scores(rows, there).masked_fill(~there, -torch.inf)

    @abstractmethod
    def scores(self, rows: Tensor, there: Tensor) -> Tensor:
        """Return a score for each row, arbitrary for padding."""


DECIMALS = 4


def best(logits: NDArray[np.float32]) -> int:
    """Return the greedy choice: the first of the largest logits, rounded to `DECIMALS`."""
    return int(logits.round(DECIMALS).argmax())


class PooledActor(RowActor):
    """An actor that scores each row together with mean and maximum over all rows.

    Args:
        features: number of columns of a row.
        width: width of the hidden layers.
    """

    def __init__(self, features: int, width: int = 64) -> None:
        super().__init__()
        self.of_row = _silu(features, width, width)
        self.alone = nn.Linear(width, width)
        self.among = nn.Linear(2 * width, width, bias=False)
        self.score = nn.Linear(width, 1)

    def scores(self, rows: Tensor, there: Tensor) -> Tensor:
        """Return a score for each row."""
        known = self.of_row(rows)
        among = self.among(_pooled(known, there))[:, None, :]
        scores: Tensor = self.score(nn.functional.silu(self.alone(known) + among)).squeeze(-1)
        return scores


class PooledCritic(nn.Module):
    """A critic on mean and maximum over all rows; for the arguments see `PooledActor`."""

    def __init__(self, features: int, width: int = 64) -> None:
        super().__init__()
        self.of_row = _silu(features, width, width)
        self.of_all = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, rows: Tensor, there: Tensor, actions: Tensor) -> Tensor:
        """Return values; see the module."""
        value: Tensor = self.of_all(_pooled(self.of_row(rows), there)).squeeze(-1)
        return value


def _pooled(known: Tensor, there: Tensor) -> Tensor:
    """Return mean and maximum over the rows without padding, float32[batch, 2 x width]."""
    weight = there[..., None].to(known.dtype)
    mean = (known * weight).sum(dim=1) / weight.sum(dim=1)
    most = known.masked_fill(~there[..., None], -torch.inf).amax(dim=1)
    return torch.cat([mean, most], dim=1)


def _silu(*widths: int) -> nn.Sequential:
    return nn.Sequential(*dense(nn.SiLU, *widths), nn.SiLU())


def initialise(network: nn.Module, generator: torch.Generator) -> None:
    """Initialise weights at random: mean 0, variance 1 / inputs; biases are 0.

    Activations then keep mean 0 and variance 1 through layers of SELU (Klambauer et al. 2017).

    Args:
        network: the network.
        generator: the only source of random numbers.
    """
    for part in network.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, 0.0, part.in_features**-0.5, generator=generator)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
