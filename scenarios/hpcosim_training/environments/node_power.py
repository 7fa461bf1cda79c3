"""Switching nodes as a Gymnasium environment, `hpcosim/NodePower-v1`.

| space | what |
|---|---|
| observation | Box, float32[nodes, 11 or 15], see `hpcosim_client.power.features` |
| action | MultiBinary(nodes), 0: be off, 1: be on; what is not allowed is ignored |
| reward | see `power_task.Reward` |

| info | when | what |
|---|---|---|
| `action_mask` | always | int8[nodes, 2], what is allowed for each node: to be off, to be on |
| `energy_j`, `edp_js`, `makespan_s` | at the end | of the whole run, see `metrics` |

An episode is a whole workload, and begins with all nodes on. It is terminated when every job is
over. It is truncated only by `max_episode_steps` of `gymnasium.make`. Every episode is the same,
except for the draws of the job scheduler and of varying switching times. These follow the seed of
the last `reset` that had one, and the scenario's or the task's before that.
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

from hpcosim_client import View
from hpcosim_client.power.account import Account, Bools
from hpcosim_client.power.features import FEATURES, Observation, action_mask, features
from hpcosim_client.power.periodic import Periodic
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_scenarios.running.library import switching_chance
from hpcosim_server.engine.simulation import Simulation
from hpcosim_training.environments.arguments import task_and_jobs, totals
from hpcosim_training.environments.power_task import (
    Interval,
    PowerTask,
    Reward,
    check_power_states,
    task_of,
)
from hpcosim_workloads.table import JobTable


class NodePowerEnv(gymnasium.Env[Observation, NDArray[np.int8]]):
    """A simulation that stops at each decision of a power manager; see the module.

    The same actions give the same run as `managed(scheduler, learned(...))`. It is made of a
    scenario, or of a task and jobs.

    Args:
        scenario: a scenario's file; its own power manager is ignored.
        overrides: values of the scenario to change, by dotted path.
        interval_s, origin_s, reward: see `PowerTask`; with a scenario.
        task: the task.
        jobs: the workload.

    Attributes:
        task: the task.
        simulation: the simulation of this episode.
        view: the scheduler's view of it.
        observation: the last one.
        allowed: bool[nodes, 2], the last action mask.
        done: every job is over; also True before the first episode.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario is invalid.
        ValueError: the arguments contradict each other.
    """

    simulation: Simulation
    view: View
    observation: Observation
    allowed: Bools

    def __init__(
        self,
        scenario: str | Path | None = None,
        *,
        overrides: Mapping[str, Scalar] | None = None,
        interval_s: float | None = None,
        origin_s: float | None = None,
        reward: Reward | None = None,
        task: PowerTask | None = None,
        jobs: JobTable | None = None,
    ) -> None:
        said = {"interval_s": interval_s, "origin_s": origin_s, "reward": reward}
        changes = {name: value for name, value in said.items() if value is not None}
        if task is not None and changes:
            raise ValueError(f"a task says {', '.join(changes)} itself; change it there")
        how = partial(task_of, changes)
        self.task, self._jobs = task_and_jobs(scenario, overrides, task, jobs, how)
        platform = self.task.platform
        check_power_states(platform, None if scenario is None else Path(scenario))
        low = np.zeros((platform.node_count, self.task.columns), dtype=np.float32)
        low[:, FEATURES:] = -1.0  # the calendar's sines and cosines
        self.observation_space = gymnasium.spaces.Box(low, np.ones_like(low))
        self.action_space = gymnasium.spaces.MultiBinary(platform.node_count)
        self.done = True

    @property
    def account(self) -> Account:
        """The scheduler's account of this episode."""
        return self._rounds.account

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a new episode, up to its first decision; a seed replaces the task's. No options."""
        super().reset(seed=seed)
        if seed is not None:
            self.task = replace(self.task, seed=seed)
        task, wakes = self.task, self.task.rules.wake_on_allocation
        rng = switching_chance(task.seed)
        self.simulation = Simulation(task.platform, self._jobs, task.rules, rng)
        self.view = View(task.platform, task.seed, wake_on_allocation=wakes)
        self._policy = task.scheduler()
        self._rounds = Periodic(task.interval_s)
        self.done = False
        return self._advance()

    def step(
        self, action: NDArray[np.integer]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Switch nodes, and simulate until the next decision.

        Raises:
            ResetNeeded: the episode is over, or has not begun.
        """
        if self.done:
            raise ResetNeeded("every job is over, or none has come yet: reset before the next step")
        account = self.account
        wasted_j, waited_s = account.wasted_j.sum(), account.waited_s
        account.begin_interval()
        self.view.set_alarm(self._rounds.decide(self.view, np.asarray(action, dtype=np.int64)))
        observation, info = self._advance()
        length_s = self.task.interval_s
        interval = Interval(
            float((account.wasted_j.sum() - wasted_j) / (account.on_w.sum() * length_s)),
            account.waited_s - waited_s,
            len(account.waited),
            length_s,
        )
        return observation, self.task.reward.of(interval), self.done, False, info

    def _advance(self) -> tuple[Observation, dict[str, Any]]:
        """Simulate until the next decision, or until every job is over."""
        view, simulation, due = self.view, self.simulation, False
        while not due and not self.done:
            batch = simulation.advance(
                view.decisions, wake_on=view.wake_on, elapsed_s=view.elapsed_s
            )
            view.apply(batch.now_s, batch.events)
            self._policy(view)
            due = self._rounds.due(view)
            self.done = batch.ended or (view.no_more_jobs and not view.queue and not view.running)
        self.observation = features(view, self.account, self.task.origin_s)
        self.allowed = action_mask(view, self.account)
        info: dict[str, Any] = {"action_mask": self.allowed.astype(np.int8)}
        return self.observation, info | totals(simulation) if self.done else info
