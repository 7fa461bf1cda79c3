"""Settings of the training of Deep-EAS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpcosim_client.agents.deep_eas.settings import DeepEas
from hpcosim_training.learning.settings import TrainingSettings

OURS = DeepEas(sees="pairs", masked=True)
UNBOUNDED = 1e12  # a norm that no gradient reaches


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepEasTraining(TrainingSettings):
    """How Deep-EAS is trained; the defaults are not the paper's, see `FORMS`.

    Attributes:
        settings: what it decides and observes.
        pool: how many sequences there are to learn from; 0: each iteration has new ones.
        sequences: sequences of an iteration.
        trajectories: runs of each sequence; the baseline of a run is the mean of its siblings.
    """

    settings: DeepEas = OURS
    pool: int = 0
    sequences: int = 32
    trajectories: int = 8
    iterations: int = 50
    discount: float = 1.0
    gae_lambda: float = 0.97
    epochs: int = 3
    minibatch: int | None = 1024
    entropy_coefficient: float = 0.01
    max_grad_norm: float = 0.5
    max_kl: float | None = 0.03
    anneal: bool = True
    validate_every: int = 2


FORMS: Mapping[str, DeepEasTraining] = {
    "pairs": DeepEasTraining(),
    "picture": DeepEasTraining(
        settings=DeepEas(masked=True),
        iterations=40,
        sequences=16,
        learning_rate=4e-4,
        critic_learning_rate=1e-3,
    ),
    "paper": DeepEasTraining(
        settings=DeepEas(),
        algorithm="reinforce",
        iterations=1000,
        pool=150,
        sequences=150,
        trajectories=20,
        gae_lambda=1.0,
        normalise_advantages=False,
        epochs=1,
        minibatch=None,
        entropy_coefficient=0.0,
        max_grad_norm=UNBOUNDED,
        max_kl=None,
        anneal=False,
    ),
}
"""Deep-EAS by form: ours; the paper's picture and network with PPO; everything as in the paper."""
