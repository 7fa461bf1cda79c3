"""Several stretches of a workload, each a run of its own, stepped together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.power.account import Bools
from hpcosim_client.power.features import Observation
from hpcosim_client.power.periodic import Actions
from hpcosim_training.power.environment import PowerEnvironment, Task
from hpcosim_workloads.table import JobTable


def stretches(jobs: JobTable, count: int) -> list[JobTable]:
    """Return a workload in `count` parts of equal time; those without a job are left out."""
    first_s, last_s = float(jobs.submit_s[0]), float(jobs.submit_s[-1])
    bounds = np.linspace(first_s, last_s, count + 1)[1:-1]
    ends = [0, *np.searchsorted(jobs.submit_s, bounds).tolist(), len(jobs)]
    parts = [slice(start, end) for start, end in pairwise(ends)]
    return [jobs.take(part) for part in parts if part.stop > part.start]


class Totals(NamedTuple):
    """What several runs came to.

    Attributes:
        steps: decisions.
        reward: the mean of their rewards.
        wasted_j: energy not spent computing.
        mean_wait_s: mean wait of all jobs.
    """

    steps: int
    reward: float
    wasted_j: float
    mean_wait_s: float


class Lockstep:
    """Runs side by side; one that is over waits for the others.

    Args:
        environments: at least one, of one platform.

    Attributes:
        active: bool[runs], which are not over.
        seen: float32[runs, nodes, features], what they see; of one that is over, its last.
        mask: bool[runs, nodes, 2], what may be asked.
    """

    def __init__(self, environments: Sequence[PowerEnvironment]) -> None:
        self._environments = environments
        began = [environment.reset() for environment in environments]
        self.seen: Observation = np.stack([seen for seen, _ in began])
        self.mask: Bools = np.stack([mask for _, mask in began])
        self.active: Bools = np.array([not environment.done for environment in environments])
        self._steps, self._reward = 0, 0.0

    def step(self, actions: Actions) -> NDArray[np.float64]:
        """Decide in every run that is not over; return the rewards, float64[runs], others 0.

        Args:
            actions: int64[active runs, nodes].
        """
        rewards = np.zeros(len(self.active))
        for run, chosen in zip(np.flatnonzero(self.active).tolist(), actions, strict=True):
            step = self._environments[run].step(chosen)
            self.seen[run], self.mask[run], rewards[run], done = step
            self.active[run] = not done
        self._steps += len(actions)
        self._reward += float(rewards.sum())
        return rewards

    def totals(self) -> Totals:
        """Return what the runs have come to so far."""
        accounts = [environment.account for environment in self._environments]
        return Totals(
            self._steps,
            self._reward / max(self._steps, 1),
            float(sum(account.wasted_j.sum() for account in accounts)),
            sum(account.waited_s for account in accounts)
            / max(sum(account.submissions for account in accounts), 1),
        )


def begin(task: Task, jobs: JobTable, runs: int) -> Lockstep:
    """Return new runs of so many stretches of a workload."""
    return Lockstep([PowerEnvironment(task, part) for part in stretches(jobs, runs)])
