"""Proximal policy optimisation of Deep-EAS (Schulman et al. 2017)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from hpcosim_client.job import Floats, Ints
from hpcosim_training.deep_eas.agent import Agent
from hpcosim_training.deep_eas.reinforce import chosen
from hpcosim_training.deep_eas.rollout import Decisions
from hpcosim_training.deep_eas.settings import Ppo
from hpcosim_training.descent import descend


def ppo(
    agent: Agent,
    decisions: Decisions,
    worth: Floats,
    settings: Ppo,
    left: float,
    rng: np.random.Generator,
) -> None:
    """Learn by proximal policy optimisation, the critic told what came beyond the mean of runs.

    Args:
        agent: who learns.
        decisions: all of the agent as it is.
        worth: of each, how much better what came was than the mean, over the spread of the
            sequence's runs, float64[decisions].
        settings: how.
        left: how much of the training is, 1 to 0.
        rng: orders minibatches.
    """
    watched = torch.from_numpy(decisions.watched)
    with torch.inference_mode():
        values = agent.critic(watched).numpy().astype(np.float64)
    gains = advantages(decisions.run, worth, values, settings.trace)
    targets = torch.from_numpy((gains + values).astype(np.float32))
    normal = torch.from_numpy(((gains - gains.mean()) / (gains.std() + 1e-8)).astype(np.float32))
    before = torch.from_numpy(decisions.log.astype(np.float32))
    for _ in range(settings.epochs):
        shifts = []
        order = rng.permutation(decisions.size)
        for first in range(0, len(order), settings.minibatch):
            some = order[first : first + settings.minibatch]
            log, entropy = chosen(agent.network, decisions.scene.some(some), decisions.action[some])
            moved = log - before[some]
            gain = clipped_gain(moved, normal[some], settings.clip)
            loss = -gain.mean() - left * settings.entropy * entropy.mean()
            descend(agent.network, agent.steps, loss, settings.gradient_norm)
            error = nn.functional.mse_loss(agent.critic(watched[some]), targets[some])
            descend(agent.critic, agent.critic_steps, error, np.inf)
            shifts.append(-float(moved.detach().mean()))
        if np.mean(shifts) > settings.most_shift:
            return


def advantages(run: Ints, worth: Floats, values: Floats, trace: float) -> Floats:
    """Return generalised advantage estimates, float64[decisions] (Schulman et al. 2016).

    Args:
        run: of each decision; those of a run are one behind the other.
        worth: of each, what came, as a sum from there on.
        values: what the critic thought would come.
        trace: its lambda.
    """
    gains = np.zeros(len(worth))
    for here in range(len(worth) - 1, -1, -1):
        gains[here] = worth[here] - values[here]
        if here + 1 < len(run) and run[here + 1] == run[here]:
            gains[here] += values[here + 1] - worth[here + 1] + trace * gains[here + 1]
    return gains


def clipped_gain(moved: Tensor, gain: Tensor, clip: float) -> Tensor:
    """Return the clipped surrogate of each decision (Schulman et al. 2017, equation 7).

    Args:
        moved: by how much the logarithm of its probability has, float32[decisions].
        gain: its advantage, likewise.
        clip: epsilon.
    """
    ratio = moved.exp()
    return torch.minimum(ratio * gain, ratio.clamp(1.0 - clip, 1.0 + clip) * gain)
