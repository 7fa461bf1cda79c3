"""The vector environment of `hpcosim/BatchScheduling-v1`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode

from hpcosim_client.job import Bools, Ints
from hpcosim_compiled.state import BEGIN, LEAVE
from hpcosim_gym.environments.arguments import TOTALS
from hpcosim_gym.environments.batch_scheduling import METRICS, BatchSchedulingEnv, Observation
from hpcosim_gym.environments.batch_task import (
    BatchTask,
    choice_of,
    drawn_first,
    draws,
    first_job,
    no_decision,
)
from hpcosim_gym.environments.vectors import (
    HpcosimVectorEnv,
    Options,
    Singles,
    Steps,
    check_vector,
    unless_numba_fails,
)
from hpcosim_schedulers.agents.batch.scene import CLUSTER, CLUSTER_COLUMNS, SLOT_COLUMNS, Form, Rows
from hpcosim_workloads.table import JobTable

if TYPE_CHECKING:
    from hpcosim_gym.environments.batch_compiled import CompiledEpisodes


class BatchSchedulingVectorEnv(HpcosimVectorEnv[Observation]):
    """Environments `hpcosim/BatchScheduling-v1` that are stepped together.

    It equals `gymnasium.make_vec(..., "sync")`, step by step, without the views. The workload is
    read once. An environment whose episode is over is reset by the next step, which ignores its
    action and has the reward 0 (`AutoresetMode.NEXT_STEP`). With `AutoresetMode.DISABLED`,
    `reset(options={"reset_mask": over})` resets the environments of a mask, bool[num_envs].

    Where Numba is installed (`pip install 'hpcosim[fast]'`), the compiled engine steps all
    environments in one call; the more environments, the faster. Its first use on a machine compiles
    it, which takes up to a minute. What the compiled engine does not support, such as a function as
    reward or contention for memory bandwidth, the reference engine simulates, with the same
    results.

    The information has `action_mask`, int8[num_envs, K]; `action_taken`, int64[num_envs], 0 after a
    reset; and the metrics of the environments that `_mean_wait_s` marks. It has no `view`: the
    compiled engine has none.

    Args:
        num_envs: number of environments, >= 1.
        scenario: see `BatchSchedulingEnv`.
        observation: form of the observations, `dict` or `flat`.
        autoreset_mode: `NEXT_STEP` or `DISABLED`.
        **arguments: the other arguments of `BatchSchedulingEnv`.

    Raises:
        ScenarioError, WorkloadError, ValueError: see `BatchSchedulingEnv`, or `num_envs` is below
            1.
    """

    def __init__(
        self,
        num_envs: int = 1,
        scenario: str | Path | None = None,
        *,
        observation: Form = "dict",
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        **arguments: Any,
    ) -> None:
        check_vector(num_envs, autoreset_mode)
        first = BatchSchedulingEnv(scenario, observation=observation, **arguments)
        runs = _compiled(first, num_envs) or Singles(
            [first.another("flat") for _ in range(num_envs)], [*METRICS, *TOTALS], tells=True
        )
        super().__init__(first, runs, num_envs, autoreset_mode)
        self._form, self._window = observation, first.task.window_jobs

    def observation_of(self, seen: Rows) -> Observation:
        """See `HpcosimVectorEnv`; `seen` is flat."""
        if self._form == "flat":
            return seen
        first = len(CLUSTER_COLUMNS)
        slots = seen[:, first:].reshape(self.num_envs, len(SLOT_COLUMNS), self._window)
        columns = {name: slots[:, place] for place, name in enumerate(SLOT_COLUMNS)}
        return {CLUSTER: seen[:, :first], **columns}


def compiled_episodes(task: BatchTask, jobs: JobTable, count: int) -> CompiledEpisodes | None:
    """Return episodes on the compiled engine; None: it does not support the task."""

    def make() -> CompiledEpisodes | None:
        from hpcosim_gym.environments.batch_compiled import CompiledEpisodes, supports

        return CompiledEpisodes(task, jobs, count) if supports(task, jobs) else None

    return unless_numba_fails(make)


def _compiled(first: BatchSchedulingEnv, count: int) -> _Compiled | None:
    episodes = compiled_episodes(first.task, first.workload, count)
    return None if episodes is None else _Compiled(first, episodes, count)


class _Compiled:
    """All environments in one call of the compiled engine; see `Runs`."""

    def __init__(self, first: BatchSchedulingEnv, episodes: CompiledEpisodes, count: int) -> None:
        self._task, self._jobs, self._invalid = first.task, first.workload, first.invalid
        self._episodes = episodes
        self._random: list[np.random.Generator | None] = [None] * count
        self._spent, self._seen = np.zeros(count), np.zeros((count, 0), np.float32)

    @property
    def ended(self) -> Bools:
        """See `Runs`."""
        ended: Bools = self._episodes.choices == 0
        return ended

    def reset(self, seeds: Sequence[int | None], options: Options, chosen: Bools) -> Steps:
        """See `Runs`."""
        for place in np.flatnonzero(chosen).tolist():
            if seeds[place] is not None:
                self._random[place], _ = np_random(seeds[place])
        first = first_job(options, self._task, self._jobs)
        actions = np.where(chosen, BEGIN, LEAVE)
        return self._played(actions, np.zeros_like(actions), first)

    def step(self, actions: Ints) -> Steps:
        """See `Runs`."""
        taken = self._places(actions)
        return self._played(np.where(self._episodes.choices > 0, taken, BEGIN), taken, None)

    def _places(self, actions: Ints) -> Ints:
        """Return the places of the chosen jobs, 0 where an episode begins.

        Raises:
            InvalidAction: see `choice_of`.
        """
        choices = self._episodes.choices
        chosen: Ints = np.where(choices > 0, actions, 0)
        if chosen.dtype.kind in "iu" and ((chosen >= 0) & (chosen < np.maximum(choices, 1))).all():
            return chosen.astype(np.int64, copy=False)
        window, invalid = self._task.window_jobs, self._invalid
        pairs = zip(actions, choices.tolist(), strict=True)
        return np.array([choice_of(*pair, window, invalid) if pair[1] else 0 for pair in pairs])

    def _played(self, actions: Ints, taken: Ints, first: int | None) -> Steps:
        """Play all environments, and those that begin until they have a decision."""
        begun, left, episodes = actions == BEGIN, actions == LEAVE, self._episodes
        pending, now = np.flatnonzero(begun).tolist(), actions
        seen = None
        for _ in range(draws(self._task, first)):
            for place in pending:
                rng = self._random[place]
                if rng is None:
                    rng = self._random[place] = np_random()[0]
                episodes.begin(place, drawn_first(self._task, self._jobs, first, rng))
            found = episodes.play(now)
            if seen is None:
                seen = found
            seen[pending] = found[pending]
            pending = [place for place in pending if episodes.choices[place] == 0]
            if not pending:
                break
            now = np.full(len(actions), LEAVE)
            now[pending] = BEGIN
        else:
            raise no_decision()
        if left.any():
            seen[left] = self._seen[left]
        self._seen = seen
        costs = np.where(begun, 0.0, episodes.costs)
        rewards = np.where(begun, 0.0, (self._spent - costs) / self._task.reward_scale)
        self._spent = costs
        over = episodes.choices == 0
        allowed = np.maximum(episodes.choices, 1)[:, None]
        return Steps(
            seen,
            (np.arange(self._task.window_jobs) < allowed).astype(np.int8),
            taken,
            rewards,
            over,
            np.zeros_like(over),
            {place: episodes.metrics(place) for place in np.flatnonzero(over).tolist()},
        )
