"""How a pairing agent is trained."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hpcosim_client.agents.pairing.settings import Sees


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperparameters:
    """Settings of PPO; the defaults are those of Lopez, Stafford, Bosque 2025, table 5.

    Attributes:
        simulations: how often it learns, each time from new trajectories of one policy.
        trajectories: runs of a workload, or of a part of it, for each.
        epochs: how often it goes through what they brought.
        minibatch: decisions it takes at a time.
        clip: epsilon; how far the probability of a choice may move, as a share of it.
        discount: gamma; what a reward is worth one decision later.
        trace: lambda of the generalised advantage estimate (Schulman et al. 2016).
        actor_rate, critic_rate: learning rates of Adam, one each.
        entropy: weight of the entropy of a choice.
        gradient_norm: gradients of each network are cut down to this norm.
        swa: whether the actor that training ends with is the mean of those after each simulation
            past the first three quarters (stochastic weight averaging, Izmailov et al. 2018).
            From there its learning rate falls, over 15 % of the simulations left, to half.
        anneal: whether both rates fall to 0 in equal steps, all along.
        imitation: before all that, how often it goes through decisions of a teacher; 0: never.
    """

    simulations: int = 100
    trajectories: int = 5
    epochs: int = 50
    minibatch: int = 32
    clip: float = 0.1
    discount: float = 0.99
    trace: float = 0.95
    actor_rate: float = 1e-3
    critic_rate: float = 1e-3
    entropy: float = 0.0
    gradient_norm: float = 1.0
    swa: bool = True
    anneal: bool = False
    imitation: int = 0


SWA_FROM = 0.75
SWA_ANNEAL = 0.15
SWA_RATE = 0.5

FORESEEING = Hyperparameters(
    simulations=30,
    trajectories=16,
    epochs=4,
    minibatch=512,
    clip=0.2,
    discount=1.0,
    actor_rate=3e-4,
    entropy=1e-3,
    swa=False,
    anneal=True,
    imitation=20,
)
"""What suits an agent that foresees: it begins with what a teacher does."""


def hyperparameters_for(
    sees: Sees, simulations: int | None = None, trajectories: int | None = None
) -> Hyperparameters:
    """Return what suits what an agent sees, but for what is given."""
    settings = FORESEEING if sees == "foreseen" else Hyperparameters()
    return replace(
        settings,
        simulations=settings.simulations if simulations is None else simulations,
        trajectories=settings.trajectories if trajectories is None else trajectories,
    )
