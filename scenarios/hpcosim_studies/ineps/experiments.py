"""What is trained for which experiment: the papers' agent, ours, and what is changed about them.

The papers' settings are tables 4.5, 4.10, 4.13 and 4.17 of the thesis and table 5 of the paper;
their trajectories of 6 and of 18 jobs are whole workloads. What else they have is in the defaults
of `Hyperparameters`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from msgspec.structs import replace as changed

from hpcosim_client.agents.pairing.settings import Objective, Pairing
from hpcosim_training.pairing.environment import usual_reward
from hpcosim_training.pairing.session import Training
from hpcosim_training.pairing.settings import FORESEEING, Hyperparameters
from hpcosim_training.pairing.windows import Windows

PAPERS, OURS, UNTRAINED = "papers", "foreseen", "untrained"

_PAPERS = Pairing(
    sees="papers", placements_per_event="one", wait=False, wait_s=1.0, most_wait_s=3600.0
)
_OURS = Pairing(sees="foreseen")

VARIANTS: Mapping[str, Pairing] = {
    PAPERS: _PAPERS,
    "papers, no energy features": changed(_PAPERS, sees="papers_no_energy"),
    "papers, wait": changed(_PAPERS, wait=True, most_wait_s=60.0),
    "papers, all": changed(_PAPERS, placements_per_event="all"),
    "papers, all, wait": changed(_PAPERS, placements_per_event="all", wait=True, most_wait_s=60.0),
    OURS: _OURS,
    "foreseen, no wait": changed(_OURS, wait=False),
    "foreseen, one, no wait": changed(_OURS, placements_per_event="one", wait=False),
}
"""What is decided, and what is seen: the papers' agent, ours, and each changed."""


OBJECTIVES: tuple[Objective, ...] = ("energy", "edp")
SEEDS = (0, 1, 2, 3, 4)
FEWER = (0, 1, 2)
"""The seeds of changed agents, and of those whose training takes some ten minutes."""


class Learning(NamedTuple):
    """How agents of one form learn.

    Attributes:
        hyperparameters: see there.
        windows: the parts of the workload they learn from.
        validate_every, validation_windows: see `Training`.
    """

    hyperparameters: Hyperparameters
    windows: Windows = Windows()
    validate_every: int = 0
    validation_windows: int = 0


class Experiment(NamedTuple):
    """An experiment of the papers.

    Attributes:
        trained_on: the scenario agents learn from.
        tested_on: those they are tried on.
        papers, ours: how either form learns.
        variants: names of `VARIANTS` that are trained.
        papers_seeds: of the training of the papers' agent.
    """

    trained_on: str
    tested_on: tuple[str, ...]
    papers: Learning
    ours: Learning
    variants: tuple[str, ...] = (PAPERS, OURS)
    papers_seeds: tuple[int, ...] = SEEDS

    def learning(self, variant: str) -> Learning:
        """Return how a variant learns."""
        return self.ours if VARIANTS[variant].sees == "foreseen" else self.papers

    def seeds(self, variant: str) -> tuple[int, ...]:
        """Return the seeds that a variant is trained with."""
        return {OURS: SEEDS, PAPERS: self.papers_seeds}.get(variant, FEWER)


EXPERIMENTS: Mapping[str, Experiment] = {
    "pairing-exp1": Experiment(
        "exp1",
        ("exp1",),
        Learning(Hyperparameters(trajectories=3, minibatch=18, swa=False)),
        Learning(
            replace(
                FORESEEING,
                simulations=60,
                trajectories=32,
                epochs=6,
                minibatch=256,
                actor_rate=1e-3,
                entropy=0.05,
            ),
            validate_every=1,
        ),
        tuple(VARIANTS),
    ),
    "pairing-exp2": Experiment(
        "exp2",
        ("exp2",),
        Learning(Hyperparameters(trajectories=5, minibatch=45, swa=False)),
        Learning(
            replace(
                FORESEEING,
                simulations=100,
                trajectories=24,
                epochs=6,
                minibatch=256,
                actor_rate=5e-4,
                entropy=0.02,
            ),
            validate_every=1,
        ),
        tuple(VARIANTS),
    ),
    "pairing-exp3": Experiment(
        "exp3",
        ("exp3",),
        Learning(Hyperparameters(trajectories=5, minibatch=32), Windows(jobs=90)),
        Learning(replace(FORESEEING, simulations=30, trajectories=8), validate_every=2),
        papers_seeds=FEWER,
    ),
    "pairing-exp4": Experiment(
        "exp4_mixed",
        ("exp4_mem", "exp4_comp"),
        Learning(Hyperparameters(trajectories=3, minibatch=25), Windows(jobs=50)),
        Learning(FORESEEING, Windows(jobs=100, kinds=True), 5, validation_windows=12),
    ),
}
"""By the study that runs it."""


class Trained(NamedTuple):
    """One training, to be done or done.

    Attributes:
        study: a key of `EXPERIMENTS`.
        variant: a key of `VARIANTS`.
        objective: what the agent minimises.
        seed: of the training.
        trained: whether it learns at all; else its weights stay as they were drawn.
    """

    study: str
    variant: str
    objective: Objective
    seed: int
    trained: bool = True

    @property
    def label(self) -> str:
        """The variant as tables name it."""
        return self.variant if self.trained else f"{UNTRAINED} {self.variant}"

    @property
    def name(self) -> str:
        """The name of its folder."""
        return "-".join([*self.label.replace(",", "").split(), self.objective, str(self.seed)])

    @property
    def model(self) -> str:
        """The name of the file that the best of its seeds is kept in."""
        return model_name(self.variant, self.objective)

    @property
    def training(self) -> Training:
        """How it is trained."""
        learning = EXPERIMENTS[self.study].learning(self.variant)
        hyperparameters = learning.hyperparameters
        if not self.trained:
            hyperparameters = replace(hyperparameters, simulations=0, imitation=0)
        pairing = changed(VARIANTS[self.variant], objective=self.objective)
        return Training(
            pairing=pairing,
            hyperparameters=hyperparameters,
            windows=learning.windows,
            seed=self.seed,
            reward=usual_reward(pairing.sees),
            validate_every=learning.validate_every if self.trained else 0,
            validation_windows=learning.validation_windows,
        )


def model_name(variant: str, objective: Objective) -> str:
    """Return the name of the file of the best agent of a variant."""
    return f"{objective}.safetensors" if variant == OURS else f"{variant}-{objective}.safetensors"


def trainings(study: str) -> list[Trained]:
    """Return all trainings of a study, a seed of every variant before the next.

    An untrained actor does not know its objective; it stands beside agents for energy.
    """
    experiment = EXPERIMENTS[study]
    found = []
    for seed in SEEDS:
        found += [
            Trained(study, variant, objective, seed)
            for objective in OBJECTIVES
            for variant in experiment.variants
            if seed in experiment.seeds(variant)
        ]
        found += [Trained(study, variant, "energy", seed, False) for variant in (PAPERS, OURS)]
    return found


def of_kind(study: str, variant: str, objective: Objective) -> list[Trained]:
    """Return the trainings of a study that learn in one variant for one objective, all seeds."""
    return [
        one
        for one in trainings(study)
        if (one.variant, one.objective, one.trained) == (variant, objective, True)
    ]
