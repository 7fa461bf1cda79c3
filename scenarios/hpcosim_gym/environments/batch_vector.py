"""The vector environment of `hpcosim/BatchScheduling-v1`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Ints
from hpcosim_gym.environments.batch_scheduling import BatchSchedulingEnv, Observation
from hpcosim_gym.environments.batch_task import BatchTask, Cost, Invalid, Objective
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_schedulers.agents.batch.scene import Form
from hpcosim_workloads.table import JobTable

Bools = NDArray[np.bool_]


class BatchSchedulingVectorEnv(gymnasium.vector.VectorEnv[Observation, Ints, Any]):
    """Environments `hpcosim/BatchScheduling-v1` that are stepped one after the other.

    It equals `gymnasium.make_vec(..., "sync")` and copies less: a step takes hardly longer than the
    steps of the single environments. The workload is read once. An environment whose episode is
    over is reset by the next step, which ignores its action and has the reward 0
    (`AutoresetMode.NEXT_STEP`).

    The information has `action_mask`, int8[num_envs, K]; `view`, the views; `action_taken`,
    int64[num_envs], 0 after a reset; and the metrics of the environments that `_mean_wait_s` marks.

    Args:
        num_envs: number of environments, >= 1.
        scenario, overrides, observation, invalid, task, jobs, **settings: see `BatchSchedulingEnv`.

    Attributes:
        envs: the environments.

    Raises:
        ScenarioError, WorkloadError, ValueError: see `BatchSchedulingEnv`, or `num_envs` is below
            1.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 - as Gymnasium declares it

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
        more = (first.another() for _ in range(num_envs - 1))
        self.envs = [first, *more]
        self.num_envs = num_envs
        self.single_observation_space = first.observation_space
        self.single_action_space = first.action_space
        self.observation_space = batch_space(first.observation_space, num_envs)
        self.action_space = batch_space(first.action_space, num_envs)
        self._started = False

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a new episode in every environment.

        Args:
            seed: seeds of the environments, or an integer s for s, s + 1, ...
            options: see `BatchSchedulingEnv.reset`.
        """
        count = self.num_envs
        seeds = [seed] * count if seed is None else seed
        if isinstance(seeds, int):
            seeds = range(seeds, seeds + count)
        self._started = True
        pairs = zip(self.envs, seeds, strict=True)
        return _joined([env.reset(seed=one, options=options) for env, one in pairs])

    def step(self, actions: Ints) -> tuple[Observation, Floats, Bools, Bools, dict[str, Any]]:
        """Choose a job in every environment and simulate to the next decisions.

        Args:
            actions: int64[num_envs].

        Raises:
            ResetNeeded: no episode has started.
            InvalidAction: there is not one action for each environment; see also
                `BatchSchedulingEnv.step`.
        """
        if not self._started:
            raise ResetNeeded("no episode has started; call reset() before step()")
        if len(actions) != self.num_envs:
            raise InvalidAction(f"action: expected {self.num_envs} integers, got {len(actions)}")
        rewards, over = np.zeros(self.num_envs), np.zeros(self.num_envs, dtype=np.bool_)
        found = []
        for at, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
            if env.done:
                found.append(env.reset())
                continue
            observation, rewards[at], over[at], _, info = env.step(action)
            found.append((observation, info))
        observations, info = _joined(found)
        return observations, rewards, over, np.zeros_like(over), info


def _joined(
    found: Sequence[tuple[Observation, dict[str, Any]]],
) -> tuple[Observation, dict[str, Any]]:
    """Return the observations and infos of all environments, with the environments first."""
    seen, infos = [seen for seen, _ in found], [info for _, info in found]
    joined: Observation = (
        {name: np.stack([one[name] for one in seen]) for name in seen[0]}  # type: ignore[call-overload]
        if isinstance(seen[0], dict)
        else np.stack(seen)  # type: ignore[arg-type]
    )
    views = np.empty(len(infos), dtype=object)
    views[:] = [info["view"] for info in infos]
    info: dict[str, Any] = {
        "action_mask": np.stack([info["action_mask"] for info in infos]),
        "view": views,
        "action_taken": np.array([info.get("action_taken", 0) for info in infos]),
    }
    for name in {name for one in infos for name in one} - info.keys():
        info[name] = np.array([one.get(name, 0.0) for one in infos])
        info[f"_{name}"] = np.array([name in one for one in infos])
    return joined, info
