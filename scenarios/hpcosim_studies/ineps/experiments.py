"""What is trained for which experiment: the papers' agent, ours, and what is changed about them.

The papers' settings are tables 4.5, 4.10, 4.13 and 4.17 of the thesis and table 5 of the paper;
their trajectories of 6 and of 18 jobs are whole workloads. What else they have is in the defaults
of `PairingTraining`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from msgspec.structs import replace as changed

from hpcosim_client.agents.pairing.settings import Objective, Pairing
from hpcosim_training.environments.pairing_task import usual_reward
from hpcosim_training.learners.pairing.settings import (
    FORESEEING,
    PairingTraining,
    Windows,
)
from hpcosim_training.learners.pairing.settings import (
    PAPERS as PAPERS_TRAINING,
)

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


SEEDS = (0, 1, 2, 3, 4)
FEWER = (0, 1, 2)
"""Of what is changed about an agent, and where a run takes some ten minutes."""


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
    papers: PairingTraining
    ours: PairingTraining
    variants: tuple[str, ...] = (PAPERS, OURS)
    papers_seeds: tuple[int, ...] = SEEDS

    def learning(self, variant: str) -> PairingTraining:
        """Return how a variant learns."""
        return self.ours if VARIANTS[variant].sees == "foreseen" else self.papers

    def seeds(self, variant: str) -> tuple[int, ...]:
        """Return the seeds that a variant is trained with."""
        return {OURS: SEEDS, PAPERS: self.papers_seeds}.get(variant, FEWER)


EXPERIMENTS: Mapping[str, Experiment] = {
    "pairing-exp1": Experiment(
        "exp1",
        ("exp1",),
        replace(PAPERS_TRAINING, episodes=3, minibatch=18, swa=False, validate_every=0),
        replace(
            FORESEEING,
            iterations=60,
            episodes=32,
            epochs=6,
            minibatch=256,
            learning_rate=1e-3,
            entropy_coefficient=0.05,
        ),
        tuple(VARIANTS),
    ),
    "pairing-exp2": Experiment(
        "exp2",
        ("exp2",),
        replace(PAPERS_TRAINING, episodes=5, minibatch=45, swa=False, validate_every=0),
        replace(
            FORESEEING,
            iterations=100,
            episodes=24,
            epochs=6,
            minibatch=256,
            learning_rate=5e-4,
            entropy_coefficient=0.02,
        ),
        tuple(VARIANTS),
    ),
    "pairing-exp3": Experiment(
        "exp3",
        ("exp3",),
        replace(PAPERS_TRAINING, windows=Windows(jobs=90), validate_every=0),
        replace(FORESEEING, iterations=30, episodes=8, validate_every=2),
        papers_seeds=FEWER,
    ),
    "pairing-exp4": Experiment(
        "exp4_mixed",
        ("exp4_mem", "exp4_comp"),
        replace(
            PAPERS_TRAINING, episodes=3, minibatch=25, windows=Windows(jobs=50), validate_every=0
        ),
        replace(
            FORESEEING,
            windows=Windows(jobs=100, kinds=True),
            validate_every=5,
            validation_windows=12,
        ),
    ),
}
"""By the study that runs it."""


class Trained(NamedTuple):
    """One training, to be done or done.

    Attributes:
        study: a key of `EXPERIMENTS`.
        variant: of `VARIANTS`.
        objective: what it is to make small.
        seed: of it.
        trained: whether it learns at all; else its weights stay as they were drawn.
    """

    study: str
    variant: str
    objective: Objective
    seed: int
    trained: bool = True

    @property
    def folder(self) -> str:
        """What its folder is called."""
        words = self.variant.replace(",", "").split()
        untrained = () if self.trained else (UNTRAINED,)
        return "-".join((*untrained, *words, self.objective, str(self.seed)))

    @property
    def training(self) -> PairingTraining:
        """How it is trained."""
        training = EXPERIMENTS[self.study].learning(self.variant)
        if not self.trained:
            training = replace(training, iterations=0, cloning_epochs=0, validate_every=0)
        pairing = changed(VARIANTS[self.variant], objective=self.objective)
        reward = usual_reward(pairing.sees)
        return replace(training, pairing=pairing, seed=self.seed, reward=reward)


def trainings(study: str) -> list[Trained]:
    """Return all trainings of a study, a seed of every variant before the next.

    An untrained actor does not know its objective; it stands beside agents for energy.
    """
    experiment = EXPERIMENTS[study]
    objectives: tuple[Objective, Objective] = ("energy", "edp")
    return [
        one
        for seed in SEEDS
        for one in (
            *(
                Trained(study, variant, objective, seed)
                for objective in objectives
                for variant in experiment.variants
                if seed in experiment.seeds(variant)
            ),
            *(Trained(study, variant, "energy", seed, trained=False) for variant in (PAPERS, OURS)),
        )
    ]
