"""Settings of the training of a pairing agent, and windows of a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from hpcosim_gym.learning.settings import TrainingSettings
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_papers.ineps.environments.pairing_task import Reward, default_reward
from hpcosim_protocol import energy_estimate_j
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_workloads.table import JobTable

ALL_PROFILES_PROBABILITY = 0.25  # probability that a window keeps all job profiles


@dataclass(frozen=True, slots=True)
class Windows:
    """Distribution of windows of a workload.

    Attributes:
        jobs: number of consecutive jobs in a window; None: the whole workload.
        kinds: with probability 3/4, keep only the jobs of some profiles, whose number and choice
            are random. The kept jobs get the submission times of consecutive jobs of the workload,
            so that the arrival rate is the same.
    """

    jobs: int | None = None
    kinds: bool = False

    def draw(self, rng: np.random.Generator, jobs: JobTable) -> JobTable:
        """Return a random window of a workload, in submission order."""
        chosen = np.arange(len(jobs))
        if self.kinds and rng.random() >= ALL_PROFILES_PROBABILITY:
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
    """Settings of the training of a pairing agent.

    The defaults are those of Lopez, Stafford, Bosque 2025, table 5.

    Attributes:
        pairing: decisions and observation; the training sets the scales from the workload.
        reward: see `PairingTask`.
        episodes: number of episodes (windows) in each iteration.
        validation_windows: number of random windows to validate on, the same in all trainings; 0:
            the whole validation workload.
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
"""Defaults for the observations `papers` and `papers_no_energy`."""

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
"""Defaults for the observation `foreseen`: behaviour cloning first, then PPO."""


PRESETS: Mapping[str, PairingTraining] = {
    "foreseen": FORESEEING,
    "papers": replace(PAPERS, pairing=Pairing(sees="papers"), reward=default_reward("papers")),
}
"""Settings of a training by what the agent observes."""


def with_workload_scales(pairing: Pairing, scenario: Scenario, jobs: JobTable) -> Pairing:
    """Return the settings with feature scales that fit a workload.

    The scales are the medians over its jobs of requested time and of lowest energy estimate.
    """
    platform = scenario.platform
    requests = list(zip(jobs.cores.tolist(), jobs.requested_s.tolist(), strict=True))
    estimates_j = [
        [
            energy_estimate_j(platform, group, cores, requested_s, 0)
            for cores, requested_s in requests
        ]
        for group in range(len(platform.nodes))
    ]
    return msgspec.structs.replace(
        pairing,
        time_s=max(float(np.median(jobs.requested_s)), 1e-6),
        energy_j=max(float(np.median(np.min(estimates_j, axis=0))), 1e-6),
    )
