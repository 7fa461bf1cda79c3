"""Batches of decisions whose actions are described by rows; see `Rows`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcosim_client.job import Floats, Ints
from hpcosim_training.learning.distributions import Evaluation, categorical, sample_categorical
from hpcosim_training.learning.rollout import Sample


class Rows(Protocol):
    """A decision.

    Attributes:
        rows: float32[choices, features], the observation of each allowed action.
        actions: int64[choices], the numbers of these actions.
    """

    @property
    def rows(self) -> NDArray[np.float32]:
        """See the class."""

    @property
    def actions(self) -> Ints:
        """See the class."""


class RowBatch(NamedTuple):
    """The allowed actions of several decisions, padded to the same length.

    Attributes:
        rows: float32[decisions, most, features], the observation of each action.
        valid: bool[decisions, most], False for padding.
        actions: int64[decisions, most].
    """

    rows: Tensor
    valid: Tensor
    actions: Tensor

    def take(self, which: Tensor) -> RowBatch:
        """Return the selected decisions, without columns that are padding in all of them."""
        valid = self.valid[which]
        most = int(valid.sum(dim=1).max())
        return RowBatch(self.rows[which, :most], valid[:, :most], self.actions[which, :most])


def batch_of(choices: Sequence[Rows]) -> RowBatch:
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
    return RowBatch(torch.from_numpy(rows), torch.from_numpy(valid), torch.from_numpy(actions))


def join(parts: Sequence[RowBatch]) -> RowBatch:
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
    return RowBatch(rows, valid, actions)


def logits_of(actor: nn.Module, batch: RowBatch) -> NDArray[np.float32]:
    """Return an actor's logits, float32[decisions, most]; minus infinity for padding."""
    with torch.inference_mode():
        logits: NDArray[np.float32] = actor(batch.rows, batch.valid).numpy()
    return logits


def make_sampler(actor: nn.Module, rngs: Sequence[np.random.Generator]) -> Sample[RowBatch]:
    """Return a function that samples an actor's choices, with one generator for each run.

    A run consumes one random number for each choice, so its actions are independent of the runs
    beside it.
    """

    def sample(batch: RowBatch, runs: Ints) -> tuple[Ints, Floats]:
        noise = np.ones(batch.valid.shape)
        counts = batch.valid.sum(dim=1).tolist()
        for line, run, count in zip(noise, runs.tolist(), counts, strict=True):
            line[:count] = rngs[run].exponential(size=count)
        return sample_categorical(logits_of(actor, batch), noise)

    return sample


def evaluate_rows(actor: nn.Module, batch: RowBatch, actions: Tensor) -> Evaluation:
    """Evaluate actions, indices of choices, under an actor of `row_networks`."""
    return categorical(actor(batch.rows, batch.valid), actions)


def value_rows(critic: nn.Module, batch: RowBatch) -> Tensor:
    """Return the values of a critic of `row_networks`, float32[decisions]."""
    values: Tensor = critic(*batch)
    return values
