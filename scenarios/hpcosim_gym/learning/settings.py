"""Settings that all learners share."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from hpcosim_experiments.executors import IN_THIS_PROCESS, ExecutorSettings
from hpcosim_protocol import Platform
from hpcosim_workloads.table import JobTable

Algorithm = Literal["ppo", "a2c", "reinforce"]

NotNegative = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
NotNegativeNumber = Annotated[float, Meta(ge=0, le=1e15)]
PositiveNumber = Annotated[float, Meta(gt=0, le=1e15)]
Fraction = Annotated[float, Meta(ge=0, le=1)]

SWA_FROM = 0.75  # fraction of the iterations before averaging starts
SWA_ANNEAL = 0.15  # fraction of the remaining iterations in which the learning rates fall
SWA_RATE = 0.5  # final factor of the learning rates

EXECUTION_SETTINGS = frozenset({"executor", "checkpoint_every"})
"""Settings that do not change the learned weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """Settings of a training. Each learner adds its own, with the defaults of its paper.

    Attributes:
        algorithm: policy loss: `ppo` (Schulman et al. 2017), `a2c` (Mnih et al. 2016), or
            `reinforce` (Williams 1992), which has no critic.
        iterations: number of iterations; an iteration is one rollout and one update.
        seed: seed of initial weights, sampled actions, and drawn workloads.
        learning_rate: learning rate of the actor's Adam optimiser.
        critic_learning_rate: learning rate of the critic's; None: the same.
        discount: discount of the reward of the next decision (gamma), 0 to 1.
        gae_lambda: lambda of generalised advantage estimation (Schulman et al. 2016), 0 to 1; at 1
            an advantage is the return minus the value.
        normalise_advantages: scale the advantages of an update to mean 0, standard deviation 1.
        epochs: number of passes of an update over the rollout.
        minibatch: decisions of an optimiser step; None: the whole rollout.
        skim: of the decisions that were almost certain, an update with PPO or A2C uses one in this
            number, with this number as its weight, see `update.skim_weights`; 1: all.
        clip: epsilon of PPO, the clip range of the probability ratio around 1.
        entropy_coefficient: weight of the entropy in the policy loss.
        max_grad_norm: gradients of a network are clipped to this norm.
        max_kl: an update ends after the first epoch whose mean approximate KL divergence (decrease
            of log-probabilities) exceeds this, nats; None: no limit.
        anneal: decrease learning rates and entropy coefficient linearly to 0 over all iterations.
        swa: stochastic weight averaging (Izmailov et al. 2018): the final actor is the mean of the
            actors after each iteration of the last quarter. In the first 15 % of that quarter, the
            learning rates decrease linearly to half.
        cloning_epochs: epochs of behaviour cloning before the first iteration; 0: none. Requires a
            learner with a teacher.
        validate_every: iterations between validations, with an additional one at the end; 0: none.
            With validation the final actor is the one with the best validation score.
        patience: end after this number of consecutive validations without improvement; 0: never.
        checkpoint_every: iterations between checkpoints, with an additional one at the end.
        executor: where rollouts are collected; default: in this process.
    """

    algorithm: Algorithm = "ppo"
    iterations: NotNegative = 100
    seed: int = 0
    learning_rate: PositiveNumber = 1e-3
    critic_learning_rate: PositiveNumber | None = None
    discount: Fraction = 0.99
    gae_lambda: Fraction = 0.95
    normalise_advantages: bool = True
    epochs: Positive = 4
    minibatch: Positive | None = 64
    skim: Positive = 1
    clip: PositiveNumber = 0.2
    entropy_coefficient: NotNegativeNumber = 0.0
    max_grad_norm: PositiveNumber = 1.0
    max_kl: PositiveNumber | None = None
    anneal: bool = False
    swa: bool = False
    cloning_epochs: NotNegative = 0
    validate_every: NotNegative = 1
    patience: NotNegative = 0
    checkpoint_every: Positive = 1
    executor: ExecutorSettings = IN_THIS_PROCESS

    def learning_rate_factor(self, progress: float) -> float:
        """Return the factor of the learning rates.

        Args:
            progress: completed fraction of the iterations, 0 to 1.
        """
        if self.anneal:
            return 1.0 - progress
        if self.swa and progress >= SWA_FROM:
            fallen = min((progress - SWA_FROM) / ((1.0 - SWA_FROM) * SWA_ANNEAL), 1.0)
            return 1.0 - (1.0 - SWA_RATE) * fallen
        return 1.0


def description(settings: Any, **more: Any) -> str:
    """Return everything that determines the weights of a training, as text.

    Args:
        settings: the settings; `EXECUTION_SETTINGS` are left out.
        **more: additional inputs, or in place of settings of the same name.
    """
    return json.dumps(flat_settings(settings) | msgspec.to_builtins(more), sort_keys=True)


def checksum(platform: Platform, workloads: Iterable[JobTable]) -> str:
    """Return the SHA-256 of a platform and of all jobs of some workloads, hexadecimal."""
    found = hashlib.sha256(msgspec.json.encode(platform))
    for jobs in workloads:
        found.update(repr(jobs.profiles).encode())
        columns = [getattr(jobs, column.name) for column in dataclasses.fields(jobs)]
        for values in columns:
            if isinstance(values, np.ndarray):
                found.update(values.tobytes())
    return found.hexdigest()


def flat_settings(
    settings: Any, leave_out: Collection[str] = ()
) -> dict[str, str | int | float | bool]:
    """Return the settings by name, as metadata of a network; field b of field a becomes `a_b`.

    Args:
        settings: the settings; None values and `EXECUTION_SETTINGS` are left out.
        leave_out: additional names to leave out.
    """
    found: dict[str, str | int | float | bool] = {}
    for name, value in msgspec.to_builtins(settings).items():
        if name in EXECUTION_SETTINGS or name in leave_out:
            continue
        nested = value if isinstance(value, dict) else {"": value}
        for inner, one in nested.items():
            if one is not None:
                text = ",".join(map(str, one)) if isinstance(one, list | tuple) else one
                found[f"{name}_{inner}" if inner else name] = text
    return found
