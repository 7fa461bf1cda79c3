"""Settings of the training of a power manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hpcosim_gym.learning.settings import Algorithm, TrainingSettings
from hpcosim_papers.power.environments.power_task import Reward


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerTraining(TrainingSettings):
    """Settings of the training of a power manager; the defaults are those of A2C.

    They follow Table 3 of the paper (cited in `power_task.Reward`) where it has a value. The
    entropy coefficient is an addition: it prevents early deterministic policies.

    Attributes:
        iterations: number of iterations on each workload of the curriculum; an iteration covers the
            whole workload.
        curriculum: the workloads, in training order. `real`: the scenario's own; `sampled` and
            `synthetic` are generated from it (`hpcosim_workloads.synthetic.imitation`), with as
            many jobs and over `synthetic_days`, respectively.
        synthetic_days: length of the workload `synthetic`, days.
        interval_s: time between two decisions, s.
        reward: the reward.
        calendar: observe time of day and time of week, which the paper's agent does not.
        runs: number of parts of a workload, of equal duration, that run side by side.
        steps: number of decisions of each run between two updates.
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
"""Advantage actor-critic as in the paper: an update after 64 decisions."""

PPO = replace(A2C, algorithm="ppo", steps=32, epochs=3, minibatch=64, gae_lambda=0.95)
"""Proximal policy optimisation with common settings; not in the paper."""

ALGORITHMS: Mapping[str, PowerTraining] = {"a2c": A2C, "ppo": PPO}
