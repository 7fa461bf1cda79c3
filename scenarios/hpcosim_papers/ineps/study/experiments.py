"""The trainings of each experiment: the papers' agent, our agent, and ablations of both.

The papers' settings are those of tables 4.5, 4.10, 4.13 and 4.17 of the thesis and of table 5 of
the paper. Their trajectories of 6 and of 18 jobs are whole workloads. Their other settings are the
defaults of `PairingTraining`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from msgspec.structs import replace as changed

from hpcosim_papers.ineps.agent.settings import Objective, Pairing
from hpcosim_papers.ineps.environments.pairing_task import default_reward
from hpcosim_papers.ineps.learners.settings import FORESEEING, PairingTraining, Windows

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
"""Actions and observations of the agents: the papers' agent, our agent, and ablations of both."""


OBJECTIVES: tuple[Objective, ...] = ("energy", "edp")
SEEDS = (0, 1, 2, 3, 4)
FEWER = (0, 1, 2)
"""Seeds of ablations, and of agents that train for about ten minutes."""


class Experiment(NamedTuple):
    """An experiment of the papers.

    Attributes:
        trained_on: name of the training scenario.
        tested_on: names of the test scenarios.
        papers: training settings of the papers' agent.
        ours: training settings of our agent.
        variants: keys of `VARIANTS` that are trained.
        papers_seeds: training seeds of the papers' agent.
    """

    trained_on: str
    tested_on: tuple[str, ...]
    papers: PairingTraining
    ours: PairingTraining
    variants: tuple[str, ...] = (PAPERS, OURS)
    papers_seeds: tuple[int, ...] = SEEDS

    def seeds(self, variant: str) -> tuple[int, ...]:
        """Return the training seeds of a variant."""
        return {OURS: SEEDS, PAPERS: self.papers_seeds}.get(variant, FEWER)


_SMALL = replace(FORESEEING, epochs=6, minibatch=256)
"""Settings of our agent for the small experiments, 1 and 2."""

_PAPERS_TRAINING = PairingTraining(validate_every=0)

EXPERIMENTS: Mapping[str, Experiment] = {
    "pairing-exp1": Experiment(
        "exp1",
        ("exp1",),
        replace(_PAPERS_TRAINING, episodes=3, minibatch=18, swa=False),
        replace(_SMALL, iterations=60, episodes=32, learning_rate=1e-3, entropy_coefficient=0.05),
        tuple(VARIANTS),
    ),
    "pairing-exp2": Experiment(
        "exp2",
        ("exp2",),
        replace(_PAPERS_TRAINING, episodes=5, minibatch=45, swa=False),
        replace(_SMALL, iterations=100, episodes=24, learning_rate=5e-4, entropy_coefficient=0.02),
        tuple(VARIANTS),
    ),
    "pairing-exp3": Experiment(
        "exp3",
        ("exp3",),
        replace(_PAPERS_TRAINING, episodes=5, minibatch=32, windows=Windows(jobs=90)),
        replace(FORESEEING, iterations=30, episodes=8, validate_every=2),
        papers_seeds=FEWER,
    ),
    "pairing-exp4": Experiment(
        "exp4_mixed",
        ("exp4_mem", "exp4_comp"),
        replace(_PAPERS_TRAINING, episodes=3, minibatch=25, windows=Windows(jobs=50)),
        replace(
            FORESEEING,
            windows=Windows(jobs=100, kinds=True),
            validate_every=5,
            validation_windows=12,
        ),
    ),
}
"""The experiments by the name of their study."""


class PairingRun(NamedTuple):
    """The training of one agent.

    Attributes:
        study: a key of `EXPERIMENTS`.
        variant: a key of `VARIANTS`.
        objective: the quantity that the agent minimises.
        seed: seed of the training.
        trained: False: an untrained baseline, which keeps its initial weights.
    """

    study: str
    variant: str
    objective: Objective
    seed: int
    trained: bool = True

    @property
    def label(self) -> str:
        """The label of the variant in tables."""
        return self.variant if self.trained else f"{UNTRAINED} {self.variant}"

    @property
    def name(self) -> str:
        """The name of the training's folder."""
        return "-".join([*self.label.replace(",", "").split(), self.objective, str(self.seed)])

    @property
    def training(self) -> PairingTraining:
        """The training settings."""
        experiment, form = EXPERIMENTS[self.study], VARIANTS[self.variant]
        training = replace(
            experiment.ours if form.sees == "foreseen" else experiment.papers,
            pairing=changed(form, objective=self.objective),
            seed=self.seed,
            reward=default_reward(form.sees),
        )
        if self.trained:
            return training
        return replace(training, iterations=0, cloning_epochs=0, validate_every=0)


def model_name(variant: str, objective: Objective) -> str:
    """Return the name of the file of the best agent of a variant."""
    return f"{objective}.safetensors" if variant == OURS else f"{variant}-{objective}.safetensors"


def trainings(study: str) -> list[PairingRun]:
    """Return all trainings of a study, ordered by seed.

    An untrained agent is independent of the objective; it is listed under energy.
    """
    experiment = EXPERIMENTS[study]
    found = []
    for seed in SEEDS:
        found += [
            PairingRun(study, variant, objective, seed)
            for objective in OBJECTIVES
            for variant in experiment.variants
            if seed in experiment.seeds(variant)
        ]
        found += [PairingRun(study, variant, "energy", seed, False) for variant in (PAPERS, OURS)]
    return found


def trainings_of(study: str, variant: str, objective: Objective) -> list[PairingRun]:
    """Return the trainings of a variant for an objective, one per seed."""
    return [
        one
        for one in trainings(study)
        if (one.variant, one.objective, one.trained) == (variant, objective, True)
    ]
