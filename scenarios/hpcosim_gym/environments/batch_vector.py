"""The vector environment of `hpcosim/BatchScheduling-v1`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from hpcosim_client.job import Bools, Floats, Ints
from hpcosim_compiled.policies import missing_package
from hpcosim_gym.environments.arguments import TOTALS
from hpcosim_gym.environments.batch_scheduling import METRICS, BatchSchedulingEnv, Observation
from hpcosim_gym.environments.batch_task import (
    BatchTask,
    Cost,
    Invalid,
    Objective,
    choice_of,
    drawn_first,
    draws,
    first_job,
    no_decision,
)
from hpcosim_gym.environments.vectors import (
    check_actions,
    check_autoreset,
    check_running,
    final_info,
    reset_mask,
    seeds_of,
    unless_numba_fails,
)
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_schedulers.agents.batch.scene import (
    CLUSTER,
    CLUSTER_COLUMNS,
    SLOT_COLUMNS,
    Form,
    Rows,
)
from hpcosim_workloads.table import JobTable

if TYPE_CHECKING:
    from hpcosim_gym.environments.batch_compiled import CompiledEpisodes

LEAVE, BEGIN = -2, -1
"""Actions that leave an episode as it is, and that simulate it to its first choice."""


class BatchSchedulingVectorEnv(gymnasium.vector.VectorEnv[Observation, Ints, Any]):
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
        autoreset_mode: `NEXT_STEP` or `DISABLED`.
        scenario, overrides, observation, invalid, task, jobs, **settings: see `BatchSchedulingEnv`.

    Raises:
        ScenarioError, WorkloadError, ValueError: see `BatchSchedulingEnv`, or `num_envs` is below
            1.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium declares it
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        scenario: str | Path | None = None,
        *,
        overrides: Mapping[str, Scalar] | None = None,
        observation: Form = "dict",
        invalid: Invalid = "first",
        task: BatchTask | None = None,
        jobs: JobTable | None = None,
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        **settings: int | float | Objective | Cost,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs: expected an integer >= 1, got {num_envs}")
        first = BatchSchedulingEnv(
            scenario,
            overrides=overrides,
            observation=observation,
            invalid=invalid,
            task=task,
            jobs=jobs,
            render_mode=render_mode,
            **settings,
        )
        self._runs = _compiled(first, num_envs, invalid) or _Singles(first, num_envs)
        self._observation = observation
        self.num_envs = num_envs
        self.single_observation_space = first.observation_space
        self.single_action_space = first.action_space
        self.observation_space = batch_space(first.observation_space, num_envs)
        self.action_space = batch_space(first.action_space, num_envs)
        self.autoreset_mode = check_autoreset(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": autoreset_mode}
        self._started = False

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a new episode in every environment, or in those of `options["reset_mask"]`.

        Args:
            seed: seeds of the environments, or an integer s for s, s + 1, ...
            options: see `BatchSchedulingEnv.reset`.
        """
        seeds, chosen = seeds_of(seed, self.num_envs), reset_mask(options, self.num_envs)
        if not self._started:
            chosen[:] = True
        self._started = True
        return self._shown(self._runs.reset(seeds, options, chosen))

    def step(self, actions: Ints) -> tuple[Observation, Floats, Bools, Bools, dict[str, Any]]:
        """Choose a job in every environment and simulate to the next decisions.

        Args:
            actions: int64[num_envs].

        Raises:
            ResetNeeded: no episode has started, or one is over and not reset automatically.
            InvalidAction: there is not one action for each environment; see also
                `BatchSchedulingEnv.step`.
        """
        check_actions(actions, self.num_envs, started=self._started)
        if self.autoreset_mode == AutoresetMode.DISABLED:
            check_running(self._runs.ended)
        seen = self._runs.step(actions)
        observation, info = self._shown(seen)
        return observation, seen.rewards, seen.over, np.zeros_like(seen.over), info

    def _shown(self, steps: _Steps) -> tuple[Observation, dict[str, Any]]:
        """Return the observation and the information of steps."""
        window = self.single_action_space.n  # type: ignore[attr-defined]
        info: dict[str, Any] = {
            "action_mask": (np.arange(window) < steps.choices[:, None]).astype(np.int8),
            "action_taken": steps.taken,
        }
        info |= final_info(steps.metrics, steps.over)
        if self._observation == "flat":
            return steps.seen, info
        first = len(CLUSTER_COLUMNS)
        slots = steps.seen[:, first:].reshape(self.num_envs, len(SLOT_COLUMNS), window)
        columns = {name: slots[:, place] for place, name in enumerate(SLOT_COLUMNS)}
        return {CLUSTER: steps.seen[:, :first], **columns}, info


class _Steps(NamedTuple):
    """A step of all environments.

    Attributes:
        seen: float32[num_envs, values], the flat observations.
        choices: int64[num_envs], allowed actions.
        taken: int64[num_envs], chosen places; 0: it was reset.
        rewards: float64[num_envs].
        over: bool[num_envs], whether this step ended the episode.
        metrics: the metrics of the episodes that are over, by environment.
    """

    seen: Rows
    choices: Ints
    taken: Ints
    rewards: Floats
    over: Bools
    metrics: dict[int, dict[str, float]]


Options = dict[str, Any] | None


_Step = tuple[Any, float, bool, bool, dict[str, Any]]
"""What a step of a single environment returns."""


class _Singles:
    """Single environments, one after the other."""

    def __init__(self, first: BatchSchedulingEnv, count: int) -> None:
        self._envs = [first.another("flat") for _ in range(count)]
        self._last: list[_Step] = []

    @property
    def ended(self) -> Bools:
        """Which episodes are over, bool[num_envs]."""
        return np.array([env.done for env in self._envs])

    def reset(self, seeds: Sequence[int | None], options: Options, chosen: Bools) -> _Steps:
        """See `BatchSchedulingVectorEnv`."""
        return self._joined(
            [
                _begun(*env.reset(seed=seeds[place], options=options))
                if chosen[place]
                else self._last[place]
                for place, env in enumerate(self._envs)
            ]
        )

    def step(self, actions: Ints) -> _Steps:
        """See `BatchSchedulingVectorEnv`."""
        return self._joined(
            [
                _begun(*env.reset()) if env.done else env.step(action)
                for env, action in zip(self._envs, actions, strict=True)
            ]
        )

    def _joined(self, steps: list[_Step]) -> _Steps:
        self._last = steps
        seen, rewards, over, _, infos = zip(*steps, strict=True)
        last = [*METRICS, *TOTALS]
        return _Steps(
            np.stack(seen),
            np.array([info["action_mask"].sum(dtype=np.int64) for info in infos]),
            np.array([info.get("action_taken", 0) for info in infos]),
            np.array(rewards),
            np.array(over),
            {at: {name: infos[at][name] for name in last} for at in np.flatnonzero(over).tolist()},
        )


def _begun(seen: Observation, info: dict[str, Any]) -> _Step:
    """Return the step that was a reset."""
    return seen, 0.0, False, False, info


def compiled_episodes(task: BatchTask, jobs: JobTable, count: int) -> CompiledEpisodes | None:
    """Return episodes on the compiled engine; None: it does not support the task."""
    if missing_package():
        return None
    from hpcosim_gym.environments.batch_compiled import CompiledEpisodes, supports

    if not supports(task, jobs):
        return None
    return unless_numba_fails(lambda: CompiledEpisodes(task, jobs, count))


def _compiled(first: BatchSchedulingEnv, count: int, invalid: Invalid) -> _Compiled | None:
    episodes = compiled_episodes(first.task, first.workload, count)
    return None if episodes is None else _Compiled(first, episodes, count, invalid)


class _Compiled:
    """All environments in one call of the compiled engine."""

    def __init__(
        self, first: BatchSchedulingEnv, episodes: CompiledEpisodes, count: int, invalid: Invalid
    ) -> None:
        self._task, self._jobs, self._invalid = first.task, first.workload, invalid
        self._episodes = episodes
        self._random: list[np.random.Generator | None] = [None] * count
        self._spent, self._seen = np.zeros(count), np.zeros((count, 0), np.float32)

    @property
    def ended(self) -> Bools:
        """Which episodes are over, bool[num_envs]."""
        ended: Bools = self._episodes.choices == 0
        return ended

    def reset(self, seeds: Sequence[int | None], options: Options, chosen: Bools) -> _Steps:
        """See `BatchSchedulingVectorEnv`."""
        for place in np.flatnonzero(chosen).tolist():
            if seeds[place] is not None:
                self._random[place], _ = np_random(seeds[place])
        first = first_job(options, self._task, self._jobs)
        actions = np.where(chosen, BEGIN, LEAVE)
        return self._played(actions, np.zeros_like(actions), first)

    def step(self, actions: Ints) -> _Steps:
        """See `BatchSchedulingVectorEnv`."""
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

    def _played(self, actions: Ints, taken: Ints, first: int | None) -> _Steps:
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
        metrics = {place: episodes.metrics(place) for place in np.flatnonzero(over).tolist()}
        return _Steps(seen, np.maximum(episodes.choices, 1), taken, rewards, over, metrics)
