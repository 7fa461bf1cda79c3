"""Settings of the training of Deep-EAS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpcosim_gym.learning.settings import TrainingSettings
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas

PAIRS_SETTINGS = DeepEas(sees="pairs", masked=True)
UNBOUNDED = 1e12  # gradient norm that disables clipping


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepEasTraining(TrainingSettings):
    """Settings of the training of Deep-EAS; for those of the paper see `FORMS`.

    Attributes:
        pool: number of sequences to learn from; 0: new ones in each iteration.
        sequences: number of sequences in an iteration.
        trajectories: number of runs of each sequence; their mean return is the baseline.
        lengths: smallest and largest number of steps of a sequence, drawn log-uniformly; None:
            those of the scenario. With it, validation is a geometric mean over sequences.
        arrivals: smallest and largest arrival probability of a sequence, drawn uniformly; None:
            that of the scenario.
        validation_sequences: number of sequences that rate the networks, the same for a seed.
        together: number of sequences in a task of a worker.
        start: file of a network with the same observation, whose weights the actor begins with;
            a recipe names it relative to its folder; None: random ones.
    """

    settings: DeepEas = PAIRS_SETTINGS
    pool: int = 0
    sequences: int = 32
    trajectories: int = 8
    lengths: tuple[int, int] | None = None
    arrivals: tuple[float, float] | None = None
    validation_sequences: int = 100
    together: int = 8
    start: str | None = None
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
    "queue": DeepEasTraining(
        settings=DeepEas(sees="queue", masked=True, queue=15),
        lengths=(4, 240),
        arrivals=(0.1, 1.0),
        sequences=40,
        validation_sequences=40,
        together=40,
        learning_rate=2e-3,
        minibatch=512,
        skim=8,
        iterations=60,
        validate_every=5,
    ),
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
        together=75,
        validate_every=10,
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
"""Settings by form: `pairs`, features of each job-machine pair, with PPO (not in the paper);
`queue`, the same with the whole queue, on sequences of many lengths and loads;
`picture`, the paper's observation and network, with PPO; `paper`, everything as in the paper."""
