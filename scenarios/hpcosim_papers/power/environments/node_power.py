"""The Gymnasium environment `hpcosim/NodePower-v1`: switch nodes on and off."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import InvalidAction, ResetNeeded
from numpy.typing import NDArray

from hpcosim_client import View
from hpcosim_gym.environments import arguments
from hpcosim_papers.power.environments import power_task
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_scenarios.running.library import switching_chance
from hpcosim_schedulers.power.account import Bools, EnergyAccount
from hpcosim_schedulers.power.features import FEATURES, Observation, Periodic, action_mask, features
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_workloads.table import JobTable


class NodePowerEnv(gymnasium.Env[Observation, NDArray[np.int8]]):
    """Switch the nodes of a cluster on and off at regular intervals.

    ## Description

    A job scheduler runs the workload, and the agent manages the power states of the nodes. Every
    `interval_s` seconds it decides for each node whether it is on or off. The aim is to waste
    little energy on idle nodes without making jobs wait for nodes to boot. The same actions give
    the same run as `managed(scheduler, learned(...))`.

    ## Action Space

    `MultiBinary(nodes)`; 0: off, 1: on. Actions that the mask forbids are ignored.

    ## Observation Space

    `Box(0, 1, (nodes, 11), float32)`, or `(nodes, 15)` with `origin_s`. Each row describes a node;
    columns 0 to 4 are the same for all nodes. `hpcosim_schedulers.power.features` defines the
    scales.

    | column | name | unit before scaling | range |
    |---|---|---|---|
    | 0 | queued jobs | jobs | 0 to 1 |
    | 1 | arrival rate: submissions of the last hour | jobs/h | 0 to 1 |
    | 2 | mean wait so far of the queued jobs | s | 0 to 1 |
    | 3 | wasted energy of all nodes, over the energy of all nodes computing | J | 0 to 1 |
    | 4 | mean requested time of the queued jobs | s | 0 to 1 |
    | 5 | power state: 0 sleeping, 1/3 switching off, 2/3 switching on, 1 on | - | 0 to 1 |
    | 6 | idle: on and without a job | - | 0 or 1 |
    | 7 | idle time | s | 0 to 1 |
    | 8 | time until the last job is expected to end | s | 0 to 1 |
    | 9 | wasted energy of the node, over its energy computing | J | 0 to 1 |
    | 10 | time spent switching, over the elapsed time | s | 0 to 1 |
    | 11, 12 | sine and cosine of the time of day (with `origin_s`) | - | -1 to 1 |
    | 13, 14 | sine and cosine of the time of week (with `origin_s`) | - | -1 to 1 |

    ## Rewards

    Minus the weighted sum of wasted energy and waiting time in the interval, see `Reward`; the
    maximum is 0.

    ## Starting State

    All nodes are on, at the first decision of the workload. Episodes differ only by the random
    numbers of the job scheduler and of random switching times. Their seed is the last one that was
    passed to `reset`; before that, the seed of the scenario or task.

    ## Episode End

    - Terminated: all jobs have finished.
    - Truncated: only by `max_episode_steps` of `gymnasium.make`.

    ## Information

    | key | when | value |
    |---|---|---|
    | `action_mask` | always | int8[nodes, 2], 1: the node may be off (column 0), on (column 1) |
    | `energy_j`, `edp_js`, `makespan_s` | on termination | metrics of the whole run |

    ## Arguments

    Pass either `scenario`, or both `task` and `jobs`.

    Args:
        scenario: path of a scenario file, or name of a shipped one; its power manager is ignored.
        overrides: values that replace those of the scenario, by dotted path.
        interval_s: time between two decisions, s, > 0; only with `scenario`; default 1800.
        origin_s: second of the week, from Monday 00:00, at simulated time 0, 0 to 604800; only with
            `scenario`; default: no calendar columns.
        reward: the reward; only with `scenario`; default `Reward()`.
        task: the task.
        jobs: the workload.
        render_mode: None; there is no rendering.

    Attributes:
        task: the task.
        workload: the jobs.
        simulation: the simulation of this episode.
        view: the scheduler's view of the simulation.
        observation: the last observation.
        allowed: bool[nodes, 2], the last action mask.
        done: True once all jobs have finished, and before the first episode.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario is invalid.
        ValueError: an argument is invalid, or the arguments contradict each other.

    ## Version History

    - v1: initial version.
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
        reward: power_task.Reward | None = None,
        task: power_task.PowerTask | None = None,
        jobs: JobTable | None = None,
        render_mode: str | None = None,
    ) -> None:
        arguments.check_render_mode(render_mode)
        given = {"interval_s": interval_s, "origin_s": origin_s, "reward": reward}
        changes = {name: value for name, value in given.items() if value is not None}
        if task is not None and changes:
            raise ValueError(
                f"task= already defines {', '.join(changes)}; change the task, or pass scenario= "
                "instead"
            )
        path, new_task = arguments.scenario_path(scenario), partial(power_task.task_of, changes)
        self.task, self.workload = arguments.task_and_jobs(path, overrides, task, jobs, new_task)
        power_task.check_task(self.task)
        platform = self.task.platform
        power_task.check_power_states(platform, path)
        low = np.zeros((platform.node_count, self.task.columns), dtype=np.float32)
        low[:, FEATURES:] = -1.0  # the calendar's sines and cosines
        self.observation_space = gymnasium.spaces.Box(low, np.ones_like(low))
        self.action_space = gymnasium.spaces.MultiBinary(platform.node_count)
        self.done = True

    @property
    def account(self) -> EnergyAccount:
        """The energy and waiting-time account of this episode."""
        return self._rounds.account

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a new episode and simulate until its first decision.

        Args:
            seed: replaces the task's seed; None: keep it.
            options: ignored.
        """
        super().reset(seed=seed)
        if seed is not None:
            self.task = replace(self.task, seed=seed)
        task, wakes = self.task, self.task.rules.wake_on_allocation
        rng = switching_chance(task.seed)
        self.simulation = Simulation(task.platform, self.workload, task.rules, rng)
        self.view = View(task.platform, task.seed, wake_on_allocation=wakes)
        self._policy = task.scheduler()
        self._rounds = Periodic(task.interval_s)
        self.done = False
        return self._advance()

    def step(
        self, action: NDArray[np.integer]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Switch nodes and simulate until the next decision.

        Raises:
            ResetNeeded: the episode is over or has not started.
            InvalidAction: the action is not an array of 0 and 1, one for each node.
        """
        if self.done:
            raise ResetNeeded("the episode is over or has not started; call reset() before step()")
        switches = self._switches(action)
        account = self.account
        wasted_j, waited_s = account.wasted_j.sum(), account.waited_s
        account.begin_interval()
        self.view.set_alarm(self._rounds.decide(self.view, switches))
        observation, info = self._advance()
        length_s = self.task.interval_s
        interval = power_task.Interval(
            float((account.wasted_j.sum() - wasted_j) / (account.on_w.sum() * length_s)),
            account.waited_s - waited_s,
            len(account.waited),
            length_s,
        )
        return observation, self.task.reward.of(interval), self.done, False, info

    def _switches(self, action: object) -> NDArray[np.int64]:
        """Return an action as int64[nodes]."""
        nodes = self.task.platform.node_count
        try:
            found = np.asarray(action)
            if found.shape == (nodes,) and found.dtype.kind in "biuf" and set(found) <= {0, 1}:
                return found.astype(np.int64)
        except ValueError:  # the rows of a nested list differ in length
            pass
        shown = reprlib.repr(action.tolist() if isinstance(action, np.ndarray) else action)
        raise InvalidAction(f"action: expected {nodes} values 0 or 1, got {shown}")

    def _advance(self) -> tuple[Observation, dict[str, Any]]:
        """Simulate until the next decision, or until all jobs have finished."""
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
        return self.observation, info | arguments.totals(simulation) if self.done else info
