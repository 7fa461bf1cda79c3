"""REINFORCE with the mean of a sequence's runs as baseline (paper, equation 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hpcosim_client.agents.deep_eas.network import DeepEasNetwork
from hpcosim_client.job import Floats
from hpcosim_scenarios.training.deep_eas.environment import SequenceEnvironment
from hpcosim_scenarios.training.deep_eas.rollout import Trajectory, explore, logits_of

AT_A_TIME = 128  # decisions whose gradients are found together


class Gradient(NamedTuple):
    """What the runs of one sequence say.

    Attributes:
        parts: of each weight, the gradient of the loss, summed over the runs.
        normalised_edp: mean over jobs and runs.
        decisions: how many there were.
    """

    parts: list[Tensor]
    normalised_edp: float
    decisions: int


def gradient(
    network: DeepEasNetwork,
    environments: Sequence[SequenceEnvironment],
    rngs: Sequence[np.random.Generator],
    entropy: float,
) -> Gradient:
    """Run a sequence several times, and return the gradient.

    Args:
        network: who decides.
        environments: as many of the sequence as there are to be runs.
        rngs: what draws, one for each.
        entropy: weight of the entropy of a choice.
    """
    trajectories = explore(network, environments, rngs)
    gains = np.concatenate(advantages(environments, trajectories))
    seen = [picture for one in trajectories for picture in one.seen]
    masks = [mask for one in trajectories for mask in one.masks]
    actions = torch.tensor([action for one in trajectories for action in one.actions])
    network.zero_grad(set_to_none=True)
    for first in range(0, len(seen), AT_A_TIME):
        some = slice(first, first + AT_A_TIME)
        logs = torch.log_softmax(logits_of(network, seen[some], masks[some]), dim=1)
        chosen = logs.gather(1, actions[some, None])[:, 0]
        gain = torch.from_numpy(gains[some]).to(torch.float32)
        present = logs.masked_fill(logs == -torch.inf, 0.0)
        spread = -(present.exp() * present * (logs > -torch.inf)).sum()
        (-(chosen * gain).sum() - entropy * spread).backward()  # type: ignore[no-untyped-call]
    parts = [weights.grad for weights in network.parameters() if weights.grad is not None]
    edps = np.concatenate([environment.normalised_edps() for environment in environments])
    return Gradient([part.clone() for part in parts], float(edps.mean()), len(seen))


def advantages(
    environments: Sequence[SequenceEnvironment], trajectories: Sequence[Trajectory]
) -> list[Floats]:
    """Return of each run's decisions how much better they came out than the runs' mean.

    The baseline of a time is the mean of what all runs still had to come at that time, those that
    were over by then, with 0, included.
    """
    last_s = max(trajectory.times_s[-1] for trajectory in trajectories)
    times_s = np.arange(np.floor(last_s) + 1.0)
    worths = np.stack([environment.worths(times_s) for environment in environments])
    better = worths - worths.mean(axis=0)
    return [
        better[run, np.array(trajectory.times_s, dtype=np.int64)]
        for run, trajectory in enumerate(trajectories)
    ]
