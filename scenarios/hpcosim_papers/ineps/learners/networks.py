"""The networks of a pairing agent in PyTorch, as an agent of the learning algorithms.

Policies evaluate actors with NumPy. An actor scores rows, so it takes any number of jobs and nodes.

The inputs are a batch of decisions:

- rows, float32[batch, choices, features]: features of the valid actions, padded with zeros;
- there, bool[batch, choices]: false for padding;
- actions, int64[batch, choices]: numbers of the actions, see `Choices`; 0 for padding.

An actor returns logits, float32[batch, choices], minus infinity for padding. A critic returns the
value of each state, float32[batch].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcosim_gym.learning.networks import Evaluation, categorical, dense, with_weights
from hpcosim_gym.learning.update import Agent
from hpcosim_papers.ineps.agent import policy
from hpcosim_papers.ineps.agent.forecast_features import Choices
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_papers.ineps.learners.settings import PairingTraining


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
        self.score = dense(nn.SELU, features, *policy.PAPER_WIDTHS)

    def scores(self, rows: Tensor, there: Tensor) -> Tensor:
        """Return a score for each row."""
        scores: Tensor = self.score(rows).squeeze(-1)
        return scores


class PaperCritic(nn.Module):
    """The critic of section 3.4.2.

    Layers of 32, 16, 8, 4 and 1 for each action, then 128, 64, 32, 16, 8 and 1 for all. Invalid
    actions are rows of zeros, so the number of actions is fixed.
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
    """An actor that scores each row together with mean and maximum over all rows."""

    def __init__(self, features: int, width: int = policy.WIDTH) -> None:
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

    def __init__(self, features: int, width: int = policy.WIDTH) -> None:
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
    features = policy.features_of(pairing)
    return ForecastActor(features) if pairing.sees == "foreseen" else PaperActor(features)


def load_actor(path: Path) -> tuple[PairingActor, policy.PairingMetadata]:
    """Return the actor in a file, for evaluation, and its metadata."""
    weights, about = policy.load_pairing(path)
    return with_weights(actor_of(about.pairing), weights), about


def initialise(network: nn.Module, generator: torch.Generator) -> None:
    """Initialise weights at random: mean 0, variance 1 / inputs; biases are 0.

    Activations then keep mean 0 and variance 1 through layers of SELU (Klambauer et al. 2017).
    """
    for part in network.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, 0.0, part.in_features**-0.5, generator=generator)
            if part.bias is not None:
                nn.init.zeros_(part.bias)


class PairBatch(NamedTuple):
    """The allowed actions of several decisions, padded to the same length.

    Attributes:
        rows: float32[decisions, most, features], the observation of each action.
        valid: bool[decisions, most], False for padding.
        actions: int64[decisions, most].
    """

    rows: Tensor
    valid: Tensor
    actions: Tensor

    def take(self, which: Tensor) -> PairBatch:
        """Return the selected decisions, without columns that are padding in all of them."""
        valid = self.valid[which]
        most = int(valid.sum(dim=1).max())
        return PairBatch(self.rows[which, :most], valid[:, :most], self.actions[which, :most])


def batch_of(choices: Sequence[Choices]) -> PairBatch:
    """Return the choices of several decisions as a batch."""
    most = max(len(one.rows) for one in choices)
    rows = np.zeros((len(choices), most, choices[0].rows.shape[1]), dtype=np.float32)
    valid = np.zeros((len(choices), most), dtype=np.bool_)
    actions = np.zeros((len(choices), most), dtype=np.int64)
    for place, one in enumerate(choices):
        count = len(one.rows)
        rows[place, :count], valid[place, :count], actions[place, :count] = (
            one.rows,
            True,
            one.actions,
        )
    return PairBatch(torch.from_numpy(rows), torch.from_numpy(valid), torch.from_numpy(actions))


def join(parts: Sequence[PairBatch]) -> PairBatch:
    """Concatenate batches, padded to the longest decision."""
    count, most = sum(len(part.valid) for part in parts), max(part.valid.shape[1] for part in parts)
    rows = torch.zeros((count, most, parts[0].rows.shape[2]))
    valid = torch.zeros((count, most), dtype=torch.bool)
    actions = torch.zeros((count, most), dtype=torch.int64)
    first = 0
    for part in parts:
        place = slice(first, first + len(part.valid)), slice(part.valid.shape[1])
        rows[place], valid[place], actions[place] = part
        first += len(part.valid)
    return PairBatch(rows, valid, actions)


def new_agent(training: PairingTraining, nodes: int) -> Agent[PairingActor, PairBatch]:
    """Return an agent with initial weights.

    Args:
        nodes: number of nodes; the critic of the observations `papers` has a fixed input size.
    """
    pairing = training.pairing
    generator = torch.Generator().manual_seed(training.seed)
    actor = actor_of(pairing)
    critic: nn.Module = ForecastCritic(policy.features_of(pairing))
    if pairing.sees != "foreseen":
        critic = PaperCritic(policy.features_of(pairing), pairing.window_jobs * nodes + 1)
    initialise(actor, generator)
    initialise(critic, generator)
    return Agent(actor, critic, _evaluate, _value, training)


def logits_of(actor: PairingActor, batch: PairBatch) -> NDArray[np.float32]:
    """Return an actor's logits, float32[decisions, most]; minus infinity for padding."""
    with torch.inference_mode():
        logits: NDArray[np.float32] = actor(batch.rows, batch.valid).numpy()
    return logits


def _evaluate(actor: PairingActor, batch: PairBatch, actions: Tensor) -> Evaluation:
    return categorical(actor(batch.rows, batch.valid), actions)


def _value(critic: nn.Module, batch: PairBatch) -> Tensor:
    values: Tensor = critic(*batch)
    return values
