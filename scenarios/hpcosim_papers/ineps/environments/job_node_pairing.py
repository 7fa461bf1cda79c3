"""The Gymnasium environment `hpcosim/JobNodePairing-v1`: assign queued jobs to nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from hpcosim_client import PolicyError, View
from hpcosim_gym.environments import arguments
from hpcosim_gym.environments.batch_task import energy_j
from hpcosim_papers.ineps.agent.forecast_features import Choices, Forecast
from hpcosim_papers.ineps.agent.policy import PairingRounds, features_of
from hpcosim_papers.ineps.agent.site import Kind, kind_of
from hpcosim_papers.ineps.environments.pairing_task import (
    Invalid,
    PairingTask,
    Reward,
    check_arguments,
    check_one_task,
    check_task,
    choice_of,
    task_of,
)
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_scenarios.running.library import switching_chance
from hpcosim_schedulers.agents.networks import Rows
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_workloads.table import JobTable


class Spent(NamedTuple):
    """The cost of an episode up to a time.

    Attributes:
        cost: energy spent, or predicted objective; at the end the actual objective, J or J s.
        now_s: simulated time, s.
    """

    cost: float
    now_s: float


def next_choices(simulation: Simulation, view: View, rounds: PairingRounds) -> Choices | None:
    """Simulate until the next decision and return its choices; None: all jobs have finished."""
    while True:
        choices = rounds.look(view)
        if choices is not None:
            return choices
        batch = simulation.advance(view.decisions, wake_on=view.wake_on, elapsed_s=view.elapsed_s)
        view.apply(batch.now_s, batch.events)
        if batch.ended or (view.no_more_jobs and not view.queue and not view.running):
            return None
        rounds.begin(view)


def objective_of(task: PairingTask, simulation: Simulation) -> float:
    """Return the objective so far: energy, J, or energy x time, J s."""
    spent_j = energy_j(simulation)
    if task.settings.objective == "energy":
        return spent_j
    return spent_j * (simulation.now_s - simulation.start_s)


def spent_so_far(
    task: PairingTask, simulation: Simulation, view: View, rounds: PairingRounds, *, done: bool
) -> Spent:
    """Return the cost of an episode so far.

    Args:
        task: the task.
        simulation: the simulation.
        view: the view of the agent.
        rounds: the rounds of the agent, with the forecast.
        done: all jobs have finished.
    """
    now_s = simulation.now_s
    if task.reward == "spent":
        return Spent(energy_j(simulation), now_s)
    if done:
        return Spent(objective_of(task, simulation), now_s)
    forecast = rounds.forecast
    span_s = forecast.horizon_s(view.now_s) - simulation.start_s
    foreseen_j = forecast.committed_j + forecast.idle_w * span_s
    time_s = span_s if task.settings.objective == "edp" else 1.0
    return Spent(foreseen_j * time_s, now_s)


def reward_between(task: PairingTask, before: Spent, after: Spent, baseline: float) -> float:
    """Return the reward of a decision, without `reward_scale`.

    Args:
        task: the task.
        before: cost at the decision.
        after: cost at the next one.
        baseline: baseline cost of the job that was placed; 0: none was.
    """
    if task.reward == "foreseen":
        return before.cost - after.cost + baseline
    time_s = after.now_s - before.now_s if task.settings.objective == "edp" else 1.0
    return baseline - (after.cost - before.cost) * time_s


NOT_STARTED = "no episode has started"


class JobNodePairingEnv(gymnasium.Env[Rows, np.int64]):
    """Assign queued jobs to nodes, one decision at a time.

    ## Description

    A cluster simulation stops whenever at least one queued job fits on a node. The agent starts a
    job on a node, or waits for the next event. The aim is to run the workload with little energy or
    a small energy-delay product (EDP, energy x time). The same actions give the same run as the
    policy `pairing`. Below, S is `window_jobs`, the number of queued jobs that are visible, and N
    is the number of nodes.

    ## Action Space

    `Discrete(S x N + 1)`. Action `slot x N + node` starts the job of that slot on that node. The
    last action, `S x N`, waits. The action mask gives the allowed actions. A masked action raises
    an error, so that a learner that ignores the mask does not train on wrong data. With
    `invalid="first"` the environment executes the first allowed action instead, for callers that
    sample `action_space` without the mask, such as `check_env`.

    ## Observation Space

    `Box(0, 1, (S x N + 1, F), float32)`. Row a describes action a; the row of a masked action is 0.
    All columns are without unit. The setting `sees` selects the columns:

    | `sees` | F | columns |
    |---|---|---|
    | `papers` | 10 | the table below; the row of the wait action is 0 |
    | `papers_no_energy` | 7 | columns 0 to 6 of the table below |
    | `foreseen` | `forecast_features.COLUMNS` | see `agents.pairing.forecast_features` |

    | column | name | unit before scaling | range |
    |---|---|---|---|
    | 0 | wait time of the job t, as t / (t + time_s) | s | 0 to 1 |
    | 1 | requested time t, as t / (t + time_s) | s | 0 to 1 |
    | 2 | submit time t after the first job, as t / (t + time_s) | s | 0 to 1 |
    | 3 | requested cores, over the cores of the largest node | cores | 0 to 1 |
    | 4 | free cores of the node, over its cores | cores | 0 to 1 |
    | 5 | operations per second of a core, over the fastest core | 1/s | 0 to 1 |
    | 6 | the job can start on the node | - | 1 |
    | 7 | static power of the node (idle power if idle), over the largest node | W | 0 to 1 |
    | 8 | dynamic power of the busy cores, over the largest of a node | W | 0 to 1 |
    | 9 | energy estimate e of the pair, as e / (e + energy_j) | J | 0 to 1 |

    Under `foreseen`, of several equivalent pairs only the first is allowed.

    ## Rewards

    | `reward` | objective `energy` | objective `edp` |
    |---|---|---|
    | `spent` | -(energy until the next decision), J | -(energy x time until then), J s |
    | `foreseen` | -(increase of the predicted energy), J | -(increase of the predicted EDP), J s |

    Rewards are divided by `reward_scale`. The rewards `foreseen` of an episode sum to minus its
    objective, the rewards `spent` to minus its energy; under `edp` the sum of `spent` has no such
    meaning, see `PairingTask`.

    ## Starting State

    The first decision of the workload: the first instant at which a submitted job fits on a node.
    The seed of `reset` replaces the task's seed. An episode draws no random numbers: the same
    actions give the same episode. `overrides={"seed": 2}` draws other jobs of a synthetic workload.

    ## Episode End

    - Terminated: all jobs have finished. The observation is 0, and the mask allows only the wait
      action.
    - Truncated: `max_decisions` decisions were taken before that.

    ## Information

    | key | when | value |
    |---|---|---|
    | `action_mask` | always | int8[S x N + 1], 1: allowed |
    | `action_taken` | each step, with `invalid="first"` | the action that was executed |
    | `energy_j`, `edp_js`, `makespan_s` | on termination | metrics of the whole run |

    `action_masks()` returns the mask as expected by `sb3_contrib.MaskablePPO`.

    ## Arguments

    Pass either `scenario`, or both `task` and `jobs`.

    Args:
        scenario: path of a scenario file, or name of a shipped one; its scheduler is ignored.
        overrides: values that replace those of the scenario, by dotted path.
        reward: `spent` or `foreseen`; None: `foreseen` if `sees` is `foreseen`, else `spent`.
        reward_scale: divisor of the rewards, above 0.
        baseline_costs: mean cost of a job by its kind, J or J s, added to the reward of placing
            such a job. Each job is placed once, so this adds the same sum to every episode.
        max_decisions: number of decisions after which an episode is truncated; None: no limit.
        invalid: handling of a masked action: `raise` an error, or execute the `first` allowed.
        task: the task, including settings and reward.
        jobs: the workload.
        render_mode: None; there is no rendering.
        **settings: fields of `Pairing`, such as `sees`, `objective`, `window_jobs`, `wait`.

    Attributes:
        task: the task.
        workload: the jobs.
        reward_scale, baseline_costs, max_decisions, invalid: see the arguments.
        simulation: the simulation of this episode.
        choices: the allowed actions and their rows, without the masked ones.
        done: True once all jobs have finished, and before the first episode.

    Raises:
        ScenarioError, WorkloadError: the scenario is invalid, or its nodes draw no power.
        ValueError: an argument is invalid, or the arguments contradict each other.

    ## Version History

    - v1: initial version.
    """

    simulation: Simulation
    choices: Choices

    def __init__(
        self,
        scenario: str | Path | None = None,
        *,
        overrides: Mapping[str, Scalar] | None = None,
        reward: Reward | None = None,
        reward_scale: float = 1.0,
        baseline_costs: Mapping[Kind, float] | None = None,
        max_decisions: int | None = None,
        invalid: Invalid = "raise",
        task: PairingTask | None = None,
        jobs: JobTable | None = None,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        arguments.check_render_mode(render_mode)
        check_arguments(reward_scale, max_decisions, invalid)
        check_one_task(task, settings, reward)
        path, new_task = arguments.scenario_path(scenario), partial(task_of, settings, reward)
        self.task, self.workload = arguments.task_and_jobs(path, overrides, task, jobs, new_task)
        check_task(self.task, path)
        self.reward_scale = reward_scale
        self.baseline_costs = baseline_costs or {}
        self.max_decisions = max_decisions
        self.invalid = invalid
        self._decisions = 0
        self._over = NOT_STARTED  # why `step` is an error; empty while an episode runs
        self.done = True
        pairing = self.task.settings
        actions = pairing.window_jobs * self.task.platform.node_count + 1
        self._shape = (actions, features_of(pairing))
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, self._shape, np.float32)
        self.action_space = gymnasium.spaces.Discrete(actions)

    def another(self) -> JobNodePairingEnv:
        """Return a new environment of the same task and workload."""
        return JobNodePairingEnv(
            reward_scale=self.reward_scale,
            baseline_costs=self.baseline_costs,
            max_decisions=self.max_decisions,
            invalid=self.invalid,
            task=self.task,
            jobs=self.workload,
        )

    @property
    def objective(self) -> float:
        """The objective of this episode so far: energy, J, or energy x time, J s."""
        return objective_of(self.task, self.simulation)

    @property
    def view(self) -> View:
        """The view of the scheduler in this episode."""
        return self._view

    @property
    def forecast(self) -> Forecast:
        """The forecast in this episode; only with `sees: foreseen`."""
        return self._rounds.forecast

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Rows, dict[str, Any]]:
        """Start a new episode.

        Args:
            seed: replaces the task's seed; None: keep it.
            options: ignored.

        Raises:
            PolicyError: a job needs more than one node, or no job can be placed.
        """
        super().reset(seed=seed)
        if seed is not None:
            self.task = replace(self.task, seed=seed)
        task = self.task
        self._over = NOT_STARTED
        rng, wakes = switching_chance(task.seed), task.rules.wake_on_allocation
        self.simulation = Simulation(task.platform, self.workload, task.rules, rng)
        self._view = View(task.platform, task.seed, wake_on_allocation=wakes)
        self._rounds = PairingRounds(task.settings, self._view)
        self._spent = Spent(0.0, self.simulation.start_s)
        self._advance()
        if self.done:
            raise PolicyError(
                "no job of the workload fits on a node, so the agent has no decision to take"
            )
        self._decisions, self._over = 0, ""
        return self._observation(), self._info()

    def step(self, action: np.int64 | int) -> tuple[Rows, float, bool, bool, dict[str, Any]]:
        """Execute an action and simulate until the next decision.

        Raises:
            ResetNeeded: the episode is over or has not started.
            InvalidAction: the action does not exist or is masked.
            PolicyError: a job submitted in the meantime needs more than one node.
        """
        if self._over:
            raise ResetNeeded(f"{self._over}; call reset() before step()")
        choice = choice_of(self.choices, action, self._shape[0], self.invalid)
        taken = int(self.choices.actions[choice])
        reward = self.choose(choice)
        truncated = not self.done and self._decisions == self.max_decisions
        if truncated:
            self._over = f"the episode is truncated after {self._decisions} decisions"
        info = self._info()
        if self.invalid == "first":
            info["action_taken"] = taken
        return self._observation(), reward, self.done, truncated, info

    def choose(self, choice: int) -> float:
        """Take one of `choices` and return the reward: `step` without observation and mask.

        Args:
            choice: index into `choices`; the episode must not be over.
        """
        pair = self.choices.pair(choice)
        baseline = 0.0 if pair is None else self.baseline_costs.get(kind_of(pair[0]), 0.0)
        self._rounds.take(self._view, self.choices, choice)
        self._advance()
        self._decisions += 1
        if self.done:
            self._over = "the episode is terminated, all jobs have finished"
        task, before = self.task, self._spent
        after = spent_so_far(task, self.simulation, self._view, self._rounds, done=self.done)
        self._spent = after
        return reward_between(task, before, after, baseline) / self.reward_scale

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the action mask, bool[S x N + 1]; sb3-contrib calls a method of this name.

        Raises:
            ResetNeeded: no episode has started.
        """
        if self._over == NOT_STARTED:
            raise ResetNeeded(f"{self._over}; call reset() before action_masks()")
        mask = np.zeros(self._shape[0], dtype=np.bool_)
        mask[-1 if self.done else self.choices.actions] = True
        return mask

    def _advance(self) -> None:
        """Simulate until the next decision, or until all jobs have finished."""
        choices = next_choices(self.simulation, self._view, self._rounds)
        self.done = choices is None
        if choices is not None:
            self.choices = choices

    def _observation(self) -> Rows:
        rows = np.zeros(self._shape, dtype=np.float32)
        if not self.done:
            rows[self.choices.actions] = self.choices.rows
        return rows

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"action_mask": self.action_masks().view(np.int8)}
        return info | arguments.totals(self.simulation) if self.done else info
