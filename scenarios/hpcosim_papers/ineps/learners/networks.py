"""The networks of a pairing agent in PyTorch. Policies evaluate actors with NumPy.

An actor scores rows, so it takes any number of jobs and nodes.

The inputs are a batch of decisions:

- rows, float32[batch, choices, features]: features of the valid actions, padded with zeros;
- there, bool[batch, choices]: false for padding;
- actions, int64[batch, choices]: numbers of the actions, see `Choices`; 0 for padding.

An actor returns logits, float32[batch, choices], minus infinity for padding. A critic returns the
value of each state, float32[batch].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import torch
from torch import Tensor, nn

from hpcosim_gym.learning.layers import dense
from hpcosim_gym.learning.weights import with_weights
from hpcosim_papers.ineps.agent.model import PAPER_WIDTHS, WIDTH, PairingMetadata, load_pairing
from hpcosim_papers.ineps.agent.rounds import features_of
from hpcosim_papers.ineps.agent.settings import Pairing


class PairingActor(nn.Module, ABC):
    """Base class of actors."""

    def forward(self, rows: Tensor, there: Tensor) -> Tensor:
        """Return logits; see the module."""
        return self.scores(rows, there).masked_fill(~there, -torch.inf)

    @abstractmethod
    def scores(self, rows: Tensor, there: Tensor) -> Tensor:
        """Return a score for each row, arbitrary for padding."""


class PaperActor(PairingActor):
    """The actor of Lopez, Stafford, Bosque 2025, section 3.4.1, which scores each row by itself.

    Layers of 16, 16, 8, 8, 4, 4 and 1, SELU between them.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.score = dense(nn.SELU, features, *PAPER_WIDTHS)

    def scores(self, rows: Tensor, there: Tensor) -> Tensor:
        """Return a score for each row."""
        scores: Tensor = self.score(rows).squeeze(-1)
        return scores


class PaperCritic(nn.Module):
    """The critic of section 3.4.2.

    Layers of 32, 16, 8, 4 and 1 for each action, then 128, 64, 32, 16, 8 and 1 for all. Invalid
    actions are rows of zeros, so the number of actions is fixed.

    Args:
        features: number of columns of a row.
        actions: number of actions, including the wait action.
    """

    def __init__(self, features: int, actions: int) -> None:
        super().__init__()
        self.of_action = dense(nn.SELU, features, 32, 16, 8, 4, 1)
        self.of_all = dense(nn.SELU, actions, 128, 64, 32, 16, 8, 1)
        self.features, self.actions = features, actions

    def forward(self, rows: Tensor, there: Tensor, actions: Tensor) -> Tensor:
        """Return values; see the module."""
        values = self.of_action(rows).squeeze(-1)
        missing = self.of_action(rows.new_zeros(self.features))
        dense = missing.expand(len(rows), self.actions + 1)
        # Padding goes to a place after the last action, which is cut off.
        places = actions.masked_fill(~there, self.actions)
        dense = torch.scatter(dense, 1, places, values)[:, : self.actions]
        value: Tensor = self.of_all(nn.functional.selu(dense)).squeeze(-1)
        return value


class ForecastActor(PairingActor):
    """An actor that scores each row together with mean and maximum over all rows.

    Args:
        features: number of columns of a row.
        width: width of the hidden layers.
    """

    def __init__(self, features: int, width: int = WIDTH) -> None:
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


class ForecastCritic(nn.Module):
    """A critic on mean and maximum over all rows; for the arguments see `ForecastActor`."""

    def __init__(self, features: int, width: int = WIDTH) -> None:
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


def actor_of(pairing: Pairing) -> PairingActor:
    """Return the actor for the observations of `pairing`, with uninitialised weights."""
    features = features_of(pairing)
    return ForecastActor(features) if pairing.sees == "foreseen" else PaperActor(features)


def load_actor(path: Path) -> tuple[PairingActor, PairingMetadata]:
    """Return the actor in a file, for evaluation, and its metadata.

    Raises:
        PolicyError: the file is invalid.
    """
    weights, about = load_pairing(path)
    return with_weights(actor_of(about.pairing), weights), about


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
