"""Switching nodes as a Gymnasium environment, `hpcosim/NodePower-v1`; `gymnasium_envs` registers.

| space | what |
|---|---|
| observation | Box, float32[nodes, 11 or 15], see `hpcosim_client.power.features` |
| action | MultiBinary(nodes), 0: be off, 1: be on; what can't be is passed over |
| reward | see `environment.Reward` |

| info | when | what |
|---|---|---|
| `action_mask` | always | int8[nodes, 2], what may be asked of each node: to be off, to be on |
| `energy_j`, `edp_js`, `makespan_s` | at the end | of the whole run, see `metrics` |

An episode is a whole workload; it is terminated when every job is over. It is never truncated,
unless `gymnasium.make` is told `max_episode_steps`. It is the same every time, but for what the
job scheduler and varying switching times draw: these follow the seed of the last `reset` that
had one, and the scenario's or the task's before that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from hpcosim_client import make_policy
from hpcosim_client.power.account import Bools
from hpcosim_client.power.features import FEATURES, Observation
from hpcosim_protocol import Platform
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.chosen import awareness_of
from hpcosim_scenarios.running.library import rules_of
from hpcosim_training.power.environment import PowerEnvironment, Reward, Task
from hpcosim_training.subject import task_and_jobs, totals
from hpcosim_workloads.table import JobTable


class NodePowerEnv(gymnasium.Env[Observation, NDArray[np.int8]]):
    """See the module. Either a scenario is given, or a task and jobs.

    Args:
        scenario: a scenario's file; its own power manager is of no account.
        overrides: values of the scenario to change, by dotted path.
        interval_s, origin_s, reward: see `Task`; with a scenario.
        task: what is to be learned.
        jobs: the workload.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario can't be used.
        ValueError: the arguments don't go together.
    """

    def __init__(
        self,
        scenario: str | Path | None = None,
        *,
        overrides: Mapping[str, Scalar] | None = None,
        interval_s: float | None = None,
        origin_s: float | None = None,
        reward: Reward | None = None,
        task: Task | None = None,
        jobs: JobTable | None = None,
    ) -> None:
        said = {"interval_s": interval_s, "origin_s": origin_s, "reward": reward}
        changes = {name: value for name, value in said.items() if value is not None}
        if task is not None and changes:
            raise ValueError(f"a task says {', '.join(changes)} itself; change it there")
        how = partial(_task_of, changes)
        whole, workload = task_and_jobs(scenario, overrides, task, jobs, how)
        _check_power_states(whole.platform, scenario)
        self._environment = PowerEnvironment(whole, workload)
        nodes = whole.platform.node_count
        low = np.zeros((nodes, whole.columns), dtype=np.float32)
        low[:, FEATURES:] = -1.0  # the calendar's sines and cosines
        high = np.ones_like(low)
        self.observation_space = gymnasium.spaces.Box(low, high)
        self.action_space = gymnasium.spaces.MultiBinary(nodes)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin anew; a seed replaces the task's. There are no options."""
        super().reset(seed=seed)
        if seed is not None:
            self._environment.task = replace(self._environment.task, seed=seed)
        seen, mask = self._environment.reset()
        return seen, self._info(mask)

    def step(
        self, action: NDArray[np.int8]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Decide, and let time pass until the next decision.

        Raises:
            ResetNeeded: the episode is over, or has not begun.
        """
        if self._environment.done:
            raise ResetNeeded("every job is over, or none has come yet: reset before the next step")
        seen, mask, reward, done = self._environment.step(np.asarray(action, dtype=np.int64))
        return seen, reward, done, False, self._info(mask)

    def _info(self, mask: Bools) -> dict[str, Any]:
        info: dict[str, Any] = {"action_mask": mask.astype(np.int8)}
        return info | totals(self._environment.simulation) if self._environment.done else info


def _task_of(changes: Mapping[str, Any], scenario: Scenario) -> Task:
    own = scenario.scheduler
    scheduler = partial(make_policy, own.name, awareness_of(own))
    scheduler()  # what is wrong with it is told at once
    task = Task(scenario.platform, scheduler, rules=rules_of(scenario), seed=scenario.seed)
    return replace(task, **changes)


def _check_power_states(platform: Platform, scenario: str | Path | None) -> None:
    if all(group.power_states is None for group in platform.nodes):
        path = None if scenario is None else Path(scenario)
        raise ScenarioError("has no nodes with power_states: nothing can be learned", path)
