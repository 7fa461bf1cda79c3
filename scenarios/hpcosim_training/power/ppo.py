"""Proximal policy optimisation (Schulman et al. 2017) of the same networks."""

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
class PPOSettings(Hyperparameters):
    """Settings of PPO; the paper has none of it, these are the usual ones.

    Attributes:
        steps: decisions of each run between two updates.
        passes: how often an update goes through them.
        minibatch: how many it takes at a time.
        clip: how far the probability of an action may move, as a share of it.
        trace: lambda of the generalised advantage estimate (Schulman et al. 2016).
    """

    steps: int = 32
    passes: int = 3
    minibatch: int = 64
    clip: float = 0.2
    trace: float = 0.95


@dataclass(slots=True)
class _Steps(Steps):
    """See `Steps`; and what this algorithm learns from beside."""

    seen: list[Tensor] = field(default_factory=list)
    chosen: list[Tensor] = field(default_factory=list)
    actions: list[Tensor] = field(default_factory=list)
    values: list[Rewards] = field(default_factory=list)


class PPO(Learner):
    """Learns from 8 runs x 32 decisions several times over.

    Each node's choice has a ratio and a clip of its own, under the advantage that all share, and
    the loss is the mean over all choices of a minibatch. One ratio for all nodes, the product of
    a hundred, would leave the clip at once, and nothing would be learned from it.
    """

    settings: PPOSettings

    def __init__(
        self, task: Task, settings: PPOSettings, seed: int, shape: Shape | None = None
    ) -> None:
        super().__init__(task, settings, seed, shape)

    def _learn(self, runs: Lockstep) -> None:
        steps = _Steps()
        for _ in range(self.settings.steps):
            if runs.active.any():
                self._step(runs, steps)
        happened = np.array(steps.before) > 0
        gains = self._advantages(steps, self._values(runs))
        targets = torch.from_numpy((gains + steps.values)[happened].astype(np.float32))
        advantages = torch.from_numpy(gains[happened].astype(np.float32))
        parts = [
            torch.cat(kept)
            for kept in (steps.seen, steps.chosen, steps.actions, steps.log_probabilities)
        ]
        for _ in range(self.settings.passes):
            order = torch.randperm(len(targets), generator=self.generator)
            for rows in torch.split(order, self.settings.minibatch):
                self._improve([part[rows] for part in parts], advantages[rows], targets[rows])

    def _step(self, runs: Lockstep, steps: _Steps) -> None:
        seen, mask = seen_by(runs), runs.mask[runs.active]
        with torch.no_grad():
            logits = self.actor(seen)
            actions = sample(logits, mask, self.generator)
            steps.log_probabilities.append(log_probabilities(logits, actions))
        steps.seen.append(seen)
        steps.chosen.append(choices(mask))
        steps.actions.append(actions)
        steps.values.append(self._values(runs))
        steps.go_on(runs, actions)

    def _advantages(self, steps: _Steps, last: Rewards) -> Rewards:
        return generalised(
            steps.rewards,
            steps.after,
            [*steps.values, last],
            self.settings.discount,
            self.settings.trace,
        )

    def _improve(self, parts: list[Tensor], advantages: Tensor, targets: Tensor) -> None:
        seen, chosen, actions, before = parts
        logits, clip = self.actor(seen), self.settings.clip
        ratios = (log_probabilities(logits, actions) - before).exp()
        shared = self._scaled(advantages)[:, None]
        gains = torch.minimum(ratios * shared, ratios.clamp(1 - clip, 1 + clip) * shared)
        spread = mean_where(entropies(logits), chosen)
        self._descend(
            -mean_where(gains, chosen) - self.settings.entropy * spread,
            torch.nn.functional.mse_loss(self.critic(seen), targets),
        )


def generalised(
    rewards: list[Rewards],
    goes_on: list[Rewards],
    values: list[Rewards],
    discount: float,
    trace: float,
) -> Rewards:
    """Return the generalised advantage estimates, float64[steps, runs].

    Args:
        rewards: see `a2c.discounted`.
        goes_on: likewise.
        values: what each state is worth, those after the last step included, float64[runs].
        discount: gamma.
        trace: lambda.
    """
    gains = np.zeros((len(rewards), len(values[-1])))
    gain = np.zeros(len(values[-1]))
    for step in reversed(range(len(rewards))):
        surprise = rewards[step] + discount * goes_on[step] * values[step + 1] - values[step]
        gain = surprise + discount * trace * goes_on[step] * gain
        gains[step] = gain
    return gains
