"""How Deep-EAS is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hpcosim_client.agents.deep_eas.settings import DeepEas

OURS = DeepEas(sees="pairs", masked=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ppo:
    """Settings of proximal policy optimisation (Schulman et al. 2017).

    Attributes:
        epochs: how often it goes through the decisions of an iteration.
        minibatch: decisions a step.
        clip: how far a probability may be moved, as a ratio less 1.
        trace: lambda of generalised advantage estimation.
        entropy: weight of the entropy of a choice; it falls to 0 with the rate.
        critic_rate: learning rate of the critic's Adam.
        gradient_norm: longer gradients are shortened to that.
        most_shift: it goes through the decisions no more once probabilities have moved so far,
            nats.
    """

    epochs: int = 3
    minibatch: int = 1024
    clip: float = 0.2
    trace: float = 0.97
    entropy: float = 0.01
    critic_rate: float = 1e-3
    gradient_norm: float = 0.5
    most_shift: float = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How Deep-EAS is trained; the defaults are not the paper's, see `FORMS`.

    Attributes:
        settings: what is decided, and seen.
        ppo: how it learns; None: REINFORCE with the mean of a sequence's runs as baseline.
        iterations: how often it learns.
        pool: how many sequences there are to learn from; 0: each iteration has new ones.
        sequences: how many are run for an iteration.
        trajectories: runs of each.
        rate: of Adam; with PPO it falls to 0.
        seed: of weights, of choices and of sequences.
        validate_every: after how many iterations its best choices are tried, on sequences of their
            own, and at the end. It ends with the network that did best.
    """

    settings: DeepEas = OURS
    ppo: Ppo | None = field(default_factory=Ppo)
    iterations: int = 50
    pool: int = 0
    sequences: int = 32
    trajectories: int = 8
    rate: float = 1e-3
    seed: int = 0
    validate_every: int = 2


FORMS: Mapping[str, Training] = {
    "pairs": Training(),
    "picture": Training(settings=DeepEas(masked=True), iterations=40, sequences=16, rate=4e-4),
    "paper": Training(
        settings=DeepEas(), ppo=None, iterations=1000, pool=150, sequences=150, trajectories=20
    ),
}
"""Deep-EAS by form: ours; the paper's picture and network with PPO; all as in the paper."""
