"""What a critic knows of a run, and how it judges it. It is there in training alone."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcosim_client.job import Ints
from hpcosim_training.deep_eas.sequences import NOT_YET, Sequences

UNITS = 64
SETS = 3  # of jobs: those to come, those that wait, those that are bound


def watch(sequences: Sequences, runs: Ints) -> NDArray[np.float32]:
    """Return float32[runs, features]: what there is still to do, and how much each second costs.

    A critic may know what no agent does: how many jobs are still to come.
    """
    jobs = sequences.jobs.some(runs)
    now = sequences.now[runs, None]
    came, bound = jobs.submit <= now, sequences.machine[runs] != NOT_YET
    begun = sequences.start[runs] != NOT_YET
    steps = np.maximum(jobs.expected.min(axis=1), 1).astype(np.float64)
    weight, work = jobs.cores / steps, jobs.cores * steps
    sets = (jobs.there & ~came, came & ~bound, bound & ~begun)
    columns = [(each * some).sum(axis=1) for some in sets for each in (weight, work)]
    columns.append((weight * np.maximum(now - jobs.submit, 0) * sets[1]).sum(axis=1))
    columns.append(now[:, 0] - jobs.submit[:, 0])
    taken = sequences.occupancy(runs)
    return np.concatenate([np.log1p(np.stack(columns, axis=1)) / 5, taken], axis=1, dtype="f4")


class Critic(nn.Module):
    """Two layers of tanh: what is to come, over the mean of the sequence's runs.

    Args:
        features: how many it is told.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features, UNITS),
            nn.Tanh(),
            nn.Linear(UNITS, UNITS),
            nn.Tanh(),
            nn.Linear(UNITS, 1),
        )

    def forward(self, watched: Tensor) -> Tensor:
        """Return float32[runs] of float32[runs, features]."""
        worth: Tensor = self.layers(watched)[:, 0]
        return worth


def features_of(machines: int) -> int:
    """Return how many features `watch` gives."""
    return 2 * SETS + 2 + machines


def draw_critic(critic: Critic, generator: torch.Generator) -> None:
    """Draw weights from this generator alone: mean 0, variance 1 / inputs; biases are 0."""
    for layer in critic.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0.0, layer.in_features**-0.5, generator=generator)
            nn.init.zeros_(layer.bias)
