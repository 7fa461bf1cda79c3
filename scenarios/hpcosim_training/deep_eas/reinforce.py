"""REINFORCE, as in the paper."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from hpcosim_client.agents.deep_eas.network import Network
from hpcosim_client.agents.deep_eas.scene import Scene
from hpcosim_client.job import Floats, Ints
from hpcosim_training.deep_eas.agent import Agent
from hpcosim_training.deep_eas.rollout import Decisions

AT_A_TIME = 256  # decisions whose gradients are found together


def reinforce(agent: Agent, decisions: Decisions, worth: Floats, runs: int) -> None:
    """Take one step along the gradient of REINFORCE (paper, equation 5), the mean over runs.

    Args:
        agent: who learns.
        decisions: all of the agent as it is.
        worth: of each, how much better what came was than the mean, float64[decisions].
        runs: how many there were.
    """
    agent.steps.zero_grad(set_to_none=True)
    for first in range(0, decisions.size, AT_A_TIME):
        some = np.arange(first, min(first + AT_A_TIME, decisions.size))
        log, _ = chosen(agent.network, decisions.scene.some(some), decisions.action[some])
        gain = torch.from_numpy(worth[some] / runs).to(torch.float32)
        (-(log * gain).sum()).backward()  # type: ignore[no-untyped-call]
    agent.steps.step()


def chosen(network: Network, scene: Scene, action: Ints) -> tuple[Tensor, Tensor]:
    """Return the logarithm of the probability of actions, and the entropies of the choices."""
    logits = network(scene)
    if network.settings.masked:
        logits = logits.masked_fill(torch.from_numpy(~scene.possible()), -torch.inf)
    logs = torch.log_softmax(logits, dim=1)
    present = logs.masked_fill(logs == -torch.inf, 0.0)
    entropy = -(present.exp() * present * (logs > -torch.inf)).sum(dim=1)
    return logs.gather(1, torch.from_numpy(action)[:, None])[:, 0], entropy
