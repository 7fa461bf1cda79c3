"""Settings of the training of a pairing agent, and the parts of a workload it learns from."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hpcosim_client.agents.pairing.settings import Pairing, Sees
from hpcosim_training.environments.pairing_task import Reward
from hpcosim_training.learning.settings import TrainingSettings
from hpcosim_workloads.table import JobTable

ALL_KINDS = 0.25  # how often all kinds stay


@dataclass(frozen=True, slots=True)
class Windows:
    """How parts are drawn.

    Attributes:
        jobs: consecutive jobs of a part; None: the whole workload.
        kinds: three times in four, take only the jobs of some profiles: first their number is
            drawn, then the profiles. They get the submission times of as many jobs of the
            workload, so that the part is as dense.
    """

    jobs: int | None = None
    kinds: bool = False

    def draw(self, rng: np.random.Generator, jobs: JobTable) -> JobTable:
        """Return a part of a workload, in submission order."""
        chosen = np.arange(len(jobs))
        if self.kinds and rng.random() >= ALL_KINDS:
            kinds = rng.permutation(np.unique(jobs.profile))
            some = kinds[: int(rng.integers(1, len(kinds) + 1))]
            chosen = np.flatnonzero(np.isin(jobs.profile, some))
        if self.jobs is not None and self.jobs < len(chosen):
            first = int(rng.integers(len(chosen) - self.jobs + 1))
            chosen = chosen[first : first + self.jobs]
        if len(chosen) == len(jobs):
            return jobs
        part = jobs.take(chosen)
        first = min(int(chosen[0]), len(jobs) - len(chosen))
        return part.at(jobs.submit_s[first : first + len(chosen)])


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingTraining(TrainingSettings):
    """How a pairing agent is trained; the defaults are the papers'.

    They are those of Lopez, Stafford, Bosque 2025, table 5.

    Attributes:
        pairing: what it decides and observes; the scales are set by the workload.
        reward: see `PairingTask`.
        windows: the parts of the workload that it learns from.
        episodes: runs of a workload, or of parts of it, in each iteration.
        validation_windows: validate on so many parts of the workload, drawn from a seed of their
            own; 0: on the whole workload, or on that of `validation`.
    """

    pairing: Pairing = field(default_factory=Pairing)
    reward: Reward = "foreseen"
    windows: Windows = field(default_factory=Windows)
    episodes: int = 5
    validation_windows: int = 0
    epochs: int = 50
    minibatch: int | None = 32
    clip: float = 0.1
    swa: bool = True


PAPERS = PairingTraining()
"""What suits the papers' features."""

FORESEEING = PairingTraining(
    iterations=30,
    episodes=16,
    epochs=4,
    minibatch=512,
    clip=0.2,
    discount=1.0,
    learning_rate=3e-4,
    critic_learning_rate=1e-3,
    entropy_coefficient=1e-3,
    swa=False,
    anneal=True,
    cloning_epochs=20,
)
"""What suits an agent that foresees: it begins by imitating a teacher."""


def training_for(sees: Sees) -> PairingTraining:
    """Return the settings that suit what an agent observes."""
    return FORESEEING if sees == "foreseen" else PAPERS
