"""The critic of Deep-EAS and its observation. It is used only in training."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcosim_client.job import Ints
from hpcosim_papers.deep_eas.agent.step_runs import UNSET, StepRuns, plan_occupancy

UNITS = 64
JOB_SETS = 3  # future, waiting and bound jobs


def critic_features(runs: StepRuns, selected: Ints) -> NDArray[np.float32]:
    """Return the critic's observation, float32[runs, features]: remaining work and cost rates.

    The critic may observe more than the agent: the features include jobs of the future.

    Args:
        runs: the runs.
        selected: int64[selected], indices of runs.
    """
    jobs = runs.jobs.take(selected)
    now = runs.now[selected, None]
    came, bound = jobs.submit <= now, runs.machine[selected] != UNSET
    begun = runs.start[selected] != UNSET
    steps = np.maximum(jobs.expected.min(axis=1), 1).astype(np.float64)
    weight, work = jobs.cores / steps, jobs.cores * steps
    sets = (jobs.valid & ~came, came & ~bound, bound & ~begun)
    columns = [(each * members).sum(axis=1) for members in sets for each in (weight, work)]
    columns.append((weight * np.maximum(now - jobs.submit, 0) * sets[1]).sum(axis=1))
    columns.append(now[:, 0] - jobs.submit[:, 0])
    occupied = plan_occupancy(runs, selected)
    return np.concatenate([np.log1p(np.stack(columns, axis=1)) / 5, occupied], axis=1, dtype="f4")


def critic_feature_count(machines: int) -> int:
    """Return the number of features of `critic_features`."""
    return 2 * JOB_SETS + 2 + machines


class DeepEasCritic(nn.Module):
    """Two tanh layers that estimate the return of a run relative to its sequence's mean.

    Args:
        features: number of input features.
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

    def forward(self, critic_input: Tensor) -> Tensor:
        """Return values, float32[runs], of features, float32[runs, features]."""
        values: Tensor = self.layers(critic_input)[:, 0]
        return values


def initialise_critic(critic: DeepEasCritic, generator: torch.Generator) -> None:
    """Sample weights with mean 0 and variance 1 / inputs from a generator; set biases to 0."""
    for layer in critic.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0.0, layer.in_features**-0.5, generator=generator)
            nn.init.zeros_(layer.bias)
