"""Workloads of Experiments 1 to 4 that no agent was trained on: other orders, mixes and loads."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from hpcosim_workloads.table import JobTable

STUDY = "pairing-unseen"

KINDS = ("exp1", "exp2", "exp3", "exp4_mem", "exp4_comp", "exp4_mixed")
"""Names of the scenarios that the workloads are drawn from."""

Split = Literal["training", "validation", "final"]
SEEDS: dict[Split, int] = {"training": 22_000_000, "validation": 22_000_001, "final": 20_261_123}
"""Seeds of the workloads. Networks learn from `training`, all choices use `validation`, and `final`
is for the last table only."""

INSTANCES = 20
LOADS = (1.0, 2.0, 0.25)
"""Submission rates relative to the scenario's; a workload's number selects one in turn."""


class Unseen(NamedTuple):
    """A workload drawn from a scenario's.

    Attributes:
        kind: name of the scenario.
        split: what the workload is used for.
        number: number of the workload, from 0.
    """

    kind: str
    split: Split
    number: int

    @property
    def load(self) -> float:
        """Submission rate relative to the scenario's."""
        return LOADS[self.number % len(LOADS)]

    @property
    def resampled(self) -> bool:
        """Whether jobs are drawn with replacement; otherwise they are in random order."""
        return self.number // len(LOADS) % 2 == 1

    def draw(self, jobs: JobTable) -> JobTable:
        """Return the workload: the scenario's submission times, divided by the load.

        Args:
            jobs: the jobs of the scenario.
        """
        rng = np.random.default_rng([SEEDS[self.split], KINDS.index(self.kind), self.number])
        count = len(jobs)
        order = rng.integers(count, size=count) if self.resampled else rng.permutation(count)
        first_s = float(jobs.submit_s[0])
        drawn = replace(jobs.take(order), job_id=np.arange(count))
        return drawn.at(first_s + (jobs.submit_s - first_s) / self.load)


def unseen(kind: str, split: Split) -> list[Unseen]:
    """Return the workloads of a scenario for one use."""
    return [Unseen(kind, split, number) for number in range(INSTANCES)]
