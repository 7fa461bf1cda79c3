"""The critic of Deep-EAS, and what it observes of a run. It exists in training alone."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcosim_client.job import Ints
from hpcosim_training.environments.step_runs import NOT_YET, StepRuns, occupancy

UNITS = 64
SETS = 3  # of jobs: those to come, those that wait, those that are bound


def watch(runs: StepRuns, some: Ints) -> NDArray[np.float32]:
    """Return float32[runs, features]: what is still to do, and how much each second costs.

    A critic may observe what no agent does: how many jobs are still to come.

    Args:
        runs: the runs.
        some: int64[runs], numbers of runs.
    """
    jobs = runs.jobs.take(some)
    now = runs.now[some, None]
    came, bound = jobs.submit <= now, runs.machine[some] != NOT_YET
    begun = runs.start[some] != NOT_YET
    steps = np.maximum(jobs.expected.min(axis=1), 1).astype(np.float64)
    weight, work = jobs.cores / steps, jobs.cores * steps
    sets = (jobs.there & ~came, came & ~bound, bound & ~begun)
    columns = [(each * members).sum(axis=1) for members in sets for each in (weight, work)]
    columns.append((weight * np.maximum(now - jobs.submit, 0) * sets[1]).sum(axis=1))
    columns.append(now[:, 0] - jobs.submit[:, 0])
    taken = occupancy(runs, some)
    return np.concatenate([np.log1p(np.stack(columns, axis=1)) / 5, taken], axis=1, dtype="f4")


def features_of(machines: int) -> int:
    """Return how many features `watch` gives for so many machines."""
    return 2 * SETS + 2 + machines


class Critic(nn.Module):
    """Two layers of tanh: the return of a run relative to the mean of its siblings.

    Args:
        features: how many features it takes.
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
        values: Tensor = self.layers(watched)[:, 0]
        return values


def draw_critic(critic: Critic, generator: torch.Generator) -> None:
    """Draw weights from this generator alone: mean 0, variance 1 / inputs; biases are 0."""
    for layer in critic.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0.0, layer.in_features**-0.5, generator=generator)
            nn.init.zeros_(layer.bias)
