"""Adapter between the networks of a pairing agent and the learning algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcosim_gym.learning.agent import Agent
from hpcosim_gym.learning.distributions import Evaluation, categorical
from hpcosim_papers.ineps.agent.choices import Choices
from hpcosim_papers.ineps.agent.rounds import features_of
from hpcosim_papers.ineps.learners.networks import (
    ForecastCritic,
    PairingActor,
    PaperCritic,
    actor_of,
    initialise,
)
from hpcosim_papers.ineps.learners.settings import PairingTraining


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
        training: settings, including the seed of the weights.
        nodes: number of nodes; the critic of the observations `papers` has a fixed input size.
    """
    pairing = training.pairing
    generator = torch.Generator().manual_seed(training.seed)
    actor = actor_of(pairing)
    critic: nn.Module = ForecastCritic(features_of(pairing))
    if pairing.sees != "foreseen":
        critic = PaperCritic(features_of(pairing), pairing.window_jobs * nodes + 1)
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
