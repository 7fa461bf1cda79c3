"""Episodes of a training that run side by side, on the compiled engine where that is worthwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hpcosim_client.job import Bools, Floats, Ints
from hpcosim_compiled.policies import missing_package
from hpcosim_compiled.state import BEGIN, LEAVE
from hpcosim_gym.learning.rollout import Runs, SideBySide
from hpcosim_papers.ineps.agent.forecast_features import Choices
from hpcosim_papers.ineps.agent.site import Kind, kind_of
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.environments.pairing_vector import compiled_episodes
from hpcosim_papers.ineps.learners.networks import PairBatch, batch_of

if TYPE_CHECKING:
    from hpcosim_papers.ineps.environments.pairing_episodes import PairingEpisodes

WARM_JOBS, COLD_JOBS = 3_000, 60_000
"""Number of jobs that a process plays before it loads compiled code, and before it compiles it:
until then, that takes longer than it saves."""


class _Process:
    """What this process has played.

    Attributes:
        jobs: number of jobs of all episodes.
    """

    jobs = 0


class PairingRuns(Runs[PairBatch], Protocol):
    """Episodes of a pairing task; an action is an index into the choices of its episode."""

    def choices(self) -> list[Choices]:
        """Return the choices of each active run; those of compiled runs have no jobs."""

    def placed(self) -> list[Kind | None]:
        """Return the kind of the job that the last action of each run started."""

    def objectives(self) -> Floats:
        """Return the objective of each run, float64[runs], J or J s."""


def runs_of(envs: Sequence[JobNodePairingEnv]) -> PairingRuns:
    """Return runs of environments of one task, which are reset or left as they are.

    Raises:
        PolicyError: see `JobNodePairingEnv.reset`.
    """
    _Process.jobs += sum(len(env.workload) for env in envs)
    if is_worthwhile(_Process.jobs):
        episodes = compiled_episodes(envs[0].task, [env.workload for env in envs])
        if episodes is not None:
            return CompiledRuns(envs, episodes)
    return SingleRuns(envs)


def is_worthwhile(jobs: int) -> bool:
    """Return whether a process that has played so many jobs should use compiled code."""
    if jobs < WARM_JOBS or missing_package():
        return False
    from hpcosim_compiled.compiler import is_warm
    from hpcosim_papers.ineps.environments.pairing_episodes import PART

    return jobs >= COLD_JOBS or is_warm(PART)


class SingleRuns(SideBySide[JobNodePairingEnv, PairBatch]):
    """Environments that are stepped one after the other; see `PairingRuns`."""

    def __init__(self, envs: Sequence[JobNodePairingEnv]) -> None:
        self._placed: list[Kind | None] = [None] * len(envs)
        super().__init__(
            envs,
            lambda some: batch_of([env.choices for env in some]),
            lambda env, choice: (env.choose(choice), env.done),
        )

    def step(self, actions: Ints) -> Floats:
        """See `Runs.step`."""
        self._placed = [None] * len(self._envs)
        for run, action in zip(np.flatnonzero(self.active).tolist(), actions, strict=True):
            pair = self._envs[run].choices.pair(action)
            self._placed[run] = None if pair is None else kind_of(pair[0])
        return super().step(actions)

    def choices(self) -> list[Choices]:
        """See `PairingRuns`."""
        return [self._envs[run].choices for run in np.flatnonzero(self.active).tolist()]

    def placed(self) -> list[Kind | None]:
        """See `PairingRuns`."""
        return self._placed

    def objectives(self) -> Floats:
        """See `PairingRuns`."""
        return np.array([env.objective for env in self._envs])


class CompiledRuns:
    """Episodes on the compiled engine, with the numbers of single environments.

    Attributes:
        active: see `Runs`.
    """

    active: Bools

    def __init__(self, envs: Sequence[JobNodePairingEnv], episodes: PairingEpisodes) -> None:
        self._episodes = episodes
        self._nodes, self._slots = (
            envs[0].task.platform.node_count,
            envs[0].task.settings.window_jobs,
        )
        self._scales = np.array([env.reward_scale for env in envs])
        self._baselines = [env.baseline_costs for env in envs]
        count = len(envs)
        episodes.begin(np.arange(count))
        episodes.play(np.full(count, BEGIN))
        self.active = ~episodes.over

    def choices(self) -> list[Choices]:
        """See `PairingRuns`."""
        rows, mask = self._episodes.rows, self._episodes.mask
        allowed = [(run, np.flatnonzero(mask[run])) for run in np.flatnonzero(self.active).tolist()]
        return [Choices(rows[run, own], own, [], self._nodes, self._slots) for run, own in allowed]

    def observe(self) -> PairBatch:
        """See `Runs.observe`."""
        return batch_of(self.choices())

    def step(self, actions: Ints) -> Floats:
        """See `Runs.step`."""
        active, mask = np.flatnonzero(self.active), self._episodes.mask
        chosen = np.full(len(self.active), LEAVE)
        for run, choice in zip(active.tolist(), actions, strict=True):
            chosen[run] = np.flatnonzero(mask[run])[choice]
        self._episodes.play(chosen)
        self.active = ~self._episodes.over
        baselines = [
            0.0 if kind is None else self._baselines[run].get(kind, 0.0)
            for run, kind in enumerate(self.placed())
        ]
        rewards: Floats = ((self._episodes.gains + baselines) / self._scales)[active]
        return rewards

    def placed(self) -> list[Kind | None]:
        """See `PairingRuns`."""
        pairs = zip(self._episodes.kinds, self._episodes.placed.tolist(), strict=True)
        return [None if number < 0 else kinds[number] for kinds, number in pairs]

    def objectives(self) -> Floats:
        """See `PairingRuns`."""
        return self._episodes.objectives()
