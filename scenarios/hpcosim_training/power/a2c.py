"""Advantage actor-critic (Mnih et al. 2016), as section 2.1 of the paper describes it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from hpcosim_client.agents.node_power.network import Shape
from hpcosim_training.power.environment import Task
from hpcosim_training.power.learner import (
    Hyperparameters,
    Learner,
    Rewards,
    Steps,
    choices,
    entropies,
    log_probabilities,
    mean_where,
    sample,
    seen_by,
)
from hpcosim_training.power.lockstep import Lockstep


@dataclass(frozen=True, slots=True, kw_only=True)
class A2CSettings(Hyperparameters):
    """Settings of A2C.

    Attributes:
        transitions: decisions to learn from at a time, over all runs.
    """

    transitions: int = 64


@dataclass(slots=True)
class _Steps(Steps):
    """See `Steps`; and what this algorithm learns from beside."""

    entropies: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)


class A2C(Learner):
    """Learns after every 64 decisions, 8 runs x 8 steps, and then forgets them.

    The logarithm of the probability of a decision is the sum over the nodes at which there was a
    choice. What a state was worth is the discounted sum of the rewards up to the update, and
    from there on what the critic says. Networks are asked once: the graph of the steps is kept
    for learning.
    """

    settings: A2CSettings

    def __init__(
        self, task: Task, settings: A2CSettings, seed: int, shape: Shape | None = None
    ) -> None:
        super().__init__(task, settings, seed, shape)

    def _learn(self, runs: Lockstep) -> None:
        steps = _Steps()
        for _ in range(max(self.settings.transitions // len(runs.active), 1)):
            if runs.active.any():
                self._step(runs, steps)
        happened = np.array(steps.before) > 0
        returns = discounted(steps.rewards, steps.after, self._values(runs), self.settings.discount)
        targets = torch.from_numpy(returns[happened].astype(np.float32))
        values = torch.cat(steps.values)
        advantages = self._scaled(targets - values.detach())
        gain = (torch.cat(steps.log_probabilities) * advantages).mean()
        spread = torch.stack(steps.entropies).mean()
        self._descend(
            -gain - self.settings.entropy * spread, torch.nn.functional.mse_loss(values, targets)
        )

    def _step(self, runs: Lockstep, steps: _Steps) -> None:
        seen, mask = seen_by(runs), runs.mask[runs.active]
        logits, chosen = self.actor(seen), choices(mask)
        actions = sample(logits, mask, self.generator)
        steps.log_probabilities.append((log_probabilities(logits, actions) * chosen).sum(dim=1))
        steps.entropies.append(mean_where(entropies(logits), chosen))
        steps.values.append(self.critic(seen))
        steps.go_on(runs, actions)


def discounted(
    rewards: list[Rewards], goes_on: list[Rewards], last: Rewards, discount: float
) -> Rewards:
    """Return what each state turned out to be worth, float64[steps, runs].

    Args:
        rewards: of each step, float64[runs].
        goes_on: 1 where the run was not over after the step, else 0.
        last: what the states after the last step are worth.
        discount: gamma.
    """
    returns = np.zeros((len(rewards), len(last)))
    worth = last
    for step in reversed(range(len(rewards))):
        worth = rewards[step] + discount * goes_on[step] * worth
        returns[step] = worth
    return returns
