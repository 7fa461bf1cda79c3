"""Settings of the training of a batch agent."""

from __future__ import annotations

from dataclasses import dataclass

from hpcosim_client.heuristics.chosen_head import WINDOW_JOBS
from hpcosim_training.environments.batch_costs import Objective
from hpcosim_training.learning.settings import TrainingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTraining(TrainingSettings):
    """Settings of the training of a batch agent: behaviour cloning of a rule, then PPO.

    Attributes:
        objective: the cost that the agent reduces.
        window_jobs: number of visible jobs.
        width: width of the hidden layers.
        teacher: rule of `hpcosim_client.heuristics.chosen_head.RULES`, which the agent imitates
            first; rewards are relative to its cost on the same episode.
        episodes: number of episodes in each iteration.
        episode_jobs: number of consecutive jobs of an episode, from a random position.
        least_load, most_load: bounds of the factor on the arrival rate of an episode, which is
            log-uniform.
        validation_windows: number of episodes of the validation, at a factor of 1, at equal
            distances; the same for all seeds.
    """

    objective: Objective = "bounded_slowdown"
    window_jobs: int = WINDOW_JOBS
    width: int = 32
    teacher: str = "saf"
    episodes: int = 24
    episode_jobs: int = 400
    least_load: float = 0.8
    most_load: float = 1.6
    validation_windows: int = 12
    iterations: int = 60
    learning_rate: float = 3e-4
    critic_learning_rate: float | None = 1e-3
    discount: float = 0.995
    gae_lambda: float = 0.95
    epochs: int = 4
    minibatch: int | None = 1024
    entropy_coefficient: float = 1e-3
    max_kl: float | None = 0.02
    anneal: bool = True
    cloning_epochs: int = 6
    validate_every: int = 5
