"""Settings that all learners share."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

Algorithm = Literal["ppo", "a2c", "reinforce"]

SWA_FROM = 0.75  # of the iterations
SWA_ANNEAL = 0.15  # of the iterations after that
SWA_RATE = 0.5

UNRELATED = frozenset({"workers", "checkpoint_every"})
"""Settings that do not change what is learned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """Settings of a training; a learner adds its own, and sets the defaults of its paper.

    Attributes:
        algorithm: the loss of the actor: `ppo` (Schulman et al. 2017), `a2c` (Mnih et al. 2016), or
            `reinforce` (Williams 1992), which has no critic.
        iterations: rollouts, each with the updates from it.
        seed: seed of weights, actions, and workloads that are drawn.
        learning_rate: learning rate of the actor's Adam.
        critic_learning_rate: of the critic's; None: the same.
        discount: gamma; the value of a reward one decision later.
        gae_lambda: lambda of generalised advantage estimation (Schulman et al. 2016); at 1.0 an
            advantage is the return minus the value.
        normalise_advantages: shift and scale the advantages of an update to mean 0, deviation 1.
        epochs: how often an update goes through the decisions of a rollout.
        minibatch: decisions per step of the optimisers; None: all of them.
        clip: epsilon of PPO: how far the probability of an action may move, as a ratio minus 1.
        entropy_coefficient: weight of the entropy in the loss of the actor.
        max_grad_norm: longer gradients of a network are shortened to this norm.
        max_kl: an update ends after the epoch in which log-probabilities fell by more than this on
            average, nats; None: it never ends early.
        anneal: learning rates and entropy coefficient fall linearly to 0 over all iterations.
        swa: the final actor is the mean of the actors after each iteration past the first three
            quarters (stochastic weight averaging, Izmailov et al. 2018). From there the learning
            rates fall to half, over 15 % of the remaining iterations.
        cloning_epochs: epochs of behaviour cloning from demonstrations before the first iteration;
            0: none. Only for learners with a teacher.
        validate_every: iterations between two validations, with another at the end; 0: none. With
            validation the final actor is the best validated one.
        patience: end after so many validations in a row without improvement; 0: never.
        checkpoint_every: iterations between two checkpoints, with another at the end.
        workers: processes that make rollouts.
    """

    algorithm: Algorithm = "ppo"
    iterations: int = 100
    seed: int = 0
    learning_rate: float = 1e-3
    critic_learning_rate: float | None = None
    discount: float = 0.99
    gae_lambda: float = 0.95
    normalise_advantages: bool = True
    epochs: int = 4
    minibatch: int | None = 64
    clip: float = 0.2
    entropy_coefficient: float = 0.0
    max_grad_norm: float = 1.0
    max_kl: float | None = None
    anneal: bool = False
    swa: bool = False
    cloning_epochs: int = 0
    validate_every: int = 1
    patience: int = 0
    checkpoint_every: int = 1
    workers: int = 1

    def learning_rate_share(self, progress: float) -> float:
        """Return the share of the learning rates to use.

        Args:
            progress: the share of the iterations that are over, 0 to 1.
        """
        if self.anneal:
            return 1.0 - progress
        if self.swa and progress >= SWA_FROM:
            fallen = min((progress - SWA_FROM) / ((1.0 - SWA_FROM) * SWA_ANNEAL), 1.0)
            return 1.0 - (1.0 - SWA_RATE) * fallen
        return 1.0


def description(settings: TrainingSettings, **more: Any) -> str:
    """Return everything that the course of a training depends on, as text.

    Args:
        settings: its settings, but those that are `UNRELATED`.
        **more: what else it depends on.
    """
    return json.dumps(flat(settings) | msgspec.to_builtins(more), sort_keys=True)


def flat(
    settings: TrainingSettings, leave_out: Collection[str] = ()
) -> dict[str, str | int | float | bool]:
    """Return the settings by name for the file of a network, `a_b` for the field b of a.

    Args:
        settings: the settings; those that are None or `UNRELATED` are left out.
        leave_out: other names to leave out.
    """
    found: dict[str, str | int | float | bool] = {}
    for name, value in msgspec.to_builtins(settings).items():
        if name in UNRELATED or name in leave_out:
            continue
        nested = value if isinstance(value, dict) else {"": value}
        for inner, one in nested.items():
            if one is not None:
                text = ",".join(one) if isinstance(one, list | tuple) else one
                found[f"{name}_{inner}" if inner else name] = text
    return found
