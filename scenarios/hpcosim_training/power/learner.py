"""What the learning algorithms share: networks, chance, and the arithmetic of choices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcosim_client.agents.node_power.network import Shape, new_actor, new_critic
from hpcosim_client.power.account import Bools
from hpcosim_training.descent import descend
from hpcosim_training.power.environment import Task
from hpcosim_training.power.lockstep import Lockstep, Totals, begin
from hpcosim_workloads.table import JobTable

Rewards = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperparameters:
    """What every algorithm is set by; the values of Table 3 of the paper where it has one.

    Attributes:
        learning_rate: of Adam, for either network.
        discount: gamma; what a reward is worth one decision later.
        gradient_norm: gradients of each network are cut down to this norm.
        entropy: weight of the mean entropy of a choice. The paper has none; it keeps choices
            from hardening before they are learned.
        runs: stretches of the workload that are stepped together.
        normalise: advantages of an update are shifted and scaled to mean 0, deviation 1.
    """

    learning_rate: float = 1e-4
    discount: float = 0.99
    gradient_norm: float = 2.0
    entropy: float = 0.01
    runs: int = 8
    normalise: bool = True


@dataclass(slots=True)
class Steps:
    """What is kept of some steps of all runs; of tensors, a row for each run not over.

    Attributes:
        log_probabilities: of what was chosen.
        rewards: float64[runs] of each step.
        before, after: float64[runs], 1 where a run was not over before, after the step.
    """

    log_probabilities: list[Tensor] = field(default_factory=list)
    rewards: list[Rewards] = field(default_factory=list)
    before: list[Rewards] = field(default_factory=list)
    after: list[Rewards] = field(default_factory=list)

    def go_on(self, runs: Lockstep, actions: Tensor) -> None:
        """Let the runs do what was chosen, and keep what came of it."""
        self.before.append(runs.active.astype(np.float64))
        self.rewards.append(runs.step(actions.numpy()))
        self.after.append(runs.active.astype(np.float64))


class Learner(ABC):
    """An actor and a critic that learn from runs.

    Args:
        task: what they learn.
        settings: how.
        seed: of first weights and of all choices; the same seed gives the same weights, with the
            same number of torch's threads.
        shape: sizes of the networks but for their features.

    Attributes:
        actor, critic: the networks.
        shape: their sizes.
    """

    def __init__(
        self, task: Task, settings: Hyperparameters, seed: int, shape: Shape | None = None
    ) -> None:
        self.task = task
        self.settings = settings
        self.seed = seed
        self.generator = torch.Generator().manual_seed(seed)
        self.shape = (shape or Shape())._replace(features=task.columns)
        self.actor = new_actor(self.shape, self.generator)
        self.critic = new_critic(self.shape, self.generator)
        rate = settings.learning_rate
        self._actor_steps = torch.optim.Adam(self.actor.parameters(), lr=rate)
        self._critic_steps = torch.optim.Adam(self.critic.parameters(), lr=rate)

    def epoch(self, jobs: JobTable, origin_s: float = 0.0) -> Totals:
        """Learn from a workload once, each stretch of it to its end.

        Args:
            jobs: it.
            origin_s: the second of the week at which its time is 0, for a task with a calendar.
        """
        calendar = None if self.task.origin_s is None else origin_s
        runs = begin(replace(self.task, origin_s=calendar), jobs, self.settings.runs)
        while runs.active.any():
            self._learn(runs)
        return runs.totals()

    @abstractmethod
    def _learn(self, runs: Lockstep) -> None:
        """Let the runs go some steps on, and learn from these."""

    def _values(self, runs: Lockstep) -> Rewards:
        """Return what the present states are worth, float64[runs]; 0 where a run is over."""
        values = np.zeros(len(runs.active))
        if runs.active.any():
            with torch.no_grad():
                values[runs.active] = self.critic(seen_by(runs)).numpy()
        return values

    def _descend(self, actor_loss: Tensor, critic_loss: Tensor) -> None:
        descend(self.actor, self._actor_steps, actor_loss, self.settings.gradient_norm)
        descend(self.critic, self._critic_steps, critic_loss, self.settings.gradient_norm)

    def _scaled(self, advantages: Tensor) -> Tensor:
        if not self.settings.normalise or len(advantages) < 2:
            return advantages
        return (advantages - advantages.mean()) / (advantages.std() + 1e-8)


def seen_by(runs: Lockstep) -> Tensor:
    """Return what the runs that are not over see, a copy: float32[active, nodes, features]."""
    return torch.from_numpy(runs.seen[runs.active])


def choices(mask: Bools) -> Tensor:
    """Return where both may be asked, bool[..., nodes], for a mask of bool[..., nodes, 2]."""
    return torch.from_numpy(mask.all(axis=-1))


def margin(logits: Tensor) -> Tensor:
    """Return how much more speaks for on than for off; its sigmoid is the probability of on."""
    return logits[..., 1] - logits[..., 0]


def sample(logits: Tensor, mask: Bools, generator: torch.Generator) -> Tensor:
    """Draw an action for each node: int64[..., nodes], 0: off, 1: on; see `action_mask`."""
    with torch.no_grad():
        on = torch.sigmoid(margin(logits))
        drawn = torch.rand(on.shape, generator=generator) < on
        only_on = torch.from_numpy(mask[..., 1])
        return torch.where(choices(mask), drawn, only_on).long()


def log_probabilities(logits: Tensor, actions: Tensor) -> Tensor:
    """Return the logarithm of the probability of each node's action: float32[..., nodes]."""
    signed = margin(logits) * (2 * actions - 1)
    return nn.functional.logsigmoid(signed)


def entropies(logits: Tensor) -> Tensor:
    """Return the entropy of each node's choice, nats: float32[..., nodes]."""
    more = margin(logits)
    on = torch.sigmoid(more)
    return nn.functional.softplus(more) - on * more


def mean_where(values: Tensor, chosen: Tensor) -> Tensor:
    """Return the mean of the chosen values; 0 where none is chosen."""
    return (values * chosen).sum() / chosen.sum().clamp(min=1)
