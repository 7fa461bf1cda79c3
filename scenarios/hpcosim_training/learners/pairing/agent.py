"""The networks of a pairing agent as the learning algorithms take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcosim_client.agents.pairing.choices import Choices
from hpcosim_client.agents.pairing.model import actor_of
from hpcosim_client.agents.pairing.networks import Actor, ForeseenCritic, PapersCritic, draw
from hpcosim_client.agents.pairing.rounds import features_of
from hpcosim_training.learners.pairing.settings import PairingTraining
from hpcosim_training.learning.agent import Agent
from hpcosim_training.learning.distributions import Evaluation, categorical


class PairBatch(NamedTuple):
    """What is allowed in several decisions, padded; see `networks`.

    Attributes:
        rows: float32[decisions, most, features].
        there: bool[decisions, most], False for padding.
        actions: int64[decisions, most].
    """

    rows: Tensor
    there: Tensor
    actions: Tensor

    def take(self, which: Tensor) -> PairBatch:
        """Return some of the decisions, without the columns that are padding to all of them."""
        there = self.there[which]
        most = int(there.sum(dim=1).max())
        return PairBatch(self.rows[which, :most], there[:, :most], self.actions[which, :most])


def batch_of(choices: Sequence[Choices]) -> PairBatch:
    """Return the choices of several decisions."""
    most = max(len(one.rows) for one in choices)
    rows = np.zeros((len(choices), most, choices[0].rows.shape[1]), dtype=np.float32)
    there = np.zeros((len(choices), most), dtype=np.bool_)
    actions = np.zeros((len(choices), most), dtype=np.int64)
    for place, one in enumerate(choices):
        count = len(one.rows)
        rows[place, :count], there[place, :count], actions[place, :count] = (
            one.rows,
            True,
            one.actions,
        )
    return PairBatch(torch.from_numpy(rows), torch.from_numpy(there), torch.from_numpy(actions))


def join(parts: Sequence[PairBatch]) -> PairBatch:
    """Return the decisions of all parts, padded to the longest."""
    count, most = sum(len(part.there) for part in parts), max(part.there.shape[1] for part in parts)
    rows = torch.zeros((count, most, parts[0].rows.shape[2]))
    there = torch.zeros((count, most), dtype=torch.bool)
    actions = torch.zeros((count, most), dtype=torch.int64)
    first = 0
    for part in parts:
        place = slice(first, first + len(part.there)), slice(part.there.shape[1])
        rows[place], there[place], actions[place] = part
        first += len(part.there)
    return PairBatch(rows, there, actions)


def new_agent(training: PairingTraining, nodes: int) -> Agent[Actor, PairBatch]:
    """Return an untrained agent.

    Args:
        training: its form, its settings, and the seed of its weights.
        nodes: how many nodes there are; the critic of the papers takes no other number.
    """
    pairing = training.pairing
    generator = torch.Generator().manual_seed(training.seed)
    actor = actor_of(pairing)
    critic: nn.Module = ForeseenCritic(features_of(pairing))
    if pairing.sees != "foreseen":
        critic = PapersCritic(features_of(pairing), pairing.window_jobs * nodes + 1)
    draw(actor, generator)
    draw(critic, generator)
    return Agent(actor, critic, _evaluate, _value, training)


def logits_of(actor: Actor, batch: PairBatch) -> NDArray[np.float32]:
    """Return the logits of an actor, float32[decisions, most]; minus infinity for padding."""
    with torch.inference_mode():
        logits: NDArray[np.float32] = actor(batch.rows, batch.there).numpy()
    return logits


def _evaluate(actor: Actor, batch: PairBatch, actions: Tensor) -> Evaluation:
    return categorical(actor(batch.rows, batch.there), actions)


def _value(critic: nn.Module, batch: PairBatch) -> Tensor:
    values: Tensor = critic(*batch)
    return values
