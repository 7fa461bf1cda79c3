"""Settings of the training of a power manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hpcosim_training.environments.power_task import Reward
from hpcosim_training.learning.settings import Algorithm, TrainingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerTraining(TrainingSettings):
    """How a power manager is trained; the defaults are those of A2C, `A2C`.

    The values are those of Table 3 of the paper where it has them, see `power_task.Reward`. The
    paper has no entropy; it keeps choices from becoming certain before they are learned.

    Attributes:
        iterations: how often it goes through each workload of the curriculum, to its end.
        curriculum: the workloads in their order. `real` is the scenario's own; `sampled` and
            `synthetic` are drawn from it, see `hpcosim_workloads.synthetic.imitation`: `sampled`
            with as many jobs, and `synthetic` over `synthetic_days`.
        synthetic_days: how many days the workload `synthetic` fills.
        interval_s: seconds between two decisions.
        reward: the reward.
        calendar: whether it observes the time of day and of week; the paper's does not.
        runs: parts of a workload, of equal time, that run side by side.
        steps: decisions of each run between two updates.
    """

    curriculum: Sequence[str] = ("sampled", "real", "synthetic")
    synthetic_days: int = 365
    interval_s: float = 1800.0
    reward: Reward = field(default_factory=Reward)
    calendar: bool = False
    runs: int = 8
    steps: int = 8
    algorithm: Algorithm = "a2c"
    iterations: int = 10
    learning_rate: float = 1e-4
    gae_lambda: float = 1.0
    epochs: int = 1
    minibatch: int | None = None
    entropy_coefficient: float = 0.01
    max_grad_norm: float = 2.0
    validate_every: int = 0


A2C = PowerTraining()
"""Advantage actor-critic, the paper's: an update after 64 decisions."""

PPO = replace(A2C, algorithm="ppo", steps=32, epochs=3, minibatch=64, gae_lambda=0.95)
"""Proximal policy optimisation, with its usual settings; the paper does not have it."""

ALGORITHMS: Mapping[str, PowerTraining] = {"a2c": A2C, "ppo": PPO}
