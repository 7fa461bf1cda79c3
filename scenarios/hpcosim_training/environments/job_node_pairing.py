"""Pairing jobs with nodes as a Gymnasium environment, `hpcosim/JobNodePairing-v1`.

With S = `window_jobs` slots and N nodes:

| space | what |
|---|---|
| observation | Box, float32[S x N + 1, F], each value from 0 to 1, without a unit |
| action | Discrete(S x N + 1); slot x N + node: start the job there; the last, S x N: wait |

Row a of an observation describes action a; it is zeros where that action is not allowed. The
client's `Rounds` decides what is seen and allowed, here and wherever the agent schedules.

| `sees` | F | columns |
|---|---|---|
| `papers` | 10 | see `papers_rows`; the row of waiting is always zeros |
| `papers_no_energy` | 7 | the first seven of these |
| `foreseen` | `foreseen_rows.COLUMNS` | see there; of equal choices the first is offered |

| `reward` | objective `energy` | objective `edp` |
|---|---|---|
| `spent` | -(energy until the next decision), J | that times the time until then, J s |
| `foreseen` | -(what the choice adds to the energy foreseen), J | -(to energy x makespan), J s |

All are divided by `reward_scale`. Those of `foreseen` add up to minus the run's objective, those of
`spent` to minus its energy; under `edp` those of `spent` add up to neither, see `PairingTask`.
Without `reward`, it is `foreseen` for an agent that sees `foreseen`, else `spent`.

| info | when | what |
|---|---|---|
| `action_mask` | always | int8[S x N + 1], 1: allowed |
| `action_taken` | with `invalid="first"`, each step | the action that was carried out |
| `energy_j`, `edp_js`, `makespan_s` | when terminated | of the whole run, see `metrics` |

An episode is a whole workload. It is terminated when every job is over, and truncated when
`most_decisions` were taken before that. A terminated episode has an observation of zeros, and a
mask that allows waiting alone, so that probabilities can still be computed from it.

A forbidden action is an error, because a learner that ignores the mask would learn from wrong data.
With `invalid="first"` the first allowed action is carried out instead, for callers that sample
`action_space` without the mask, such as Gymnasium's `check_env`.

The seed of `reset` replaces the task's, but a run of this agent draws nothing: the same actions
give the same episode. Where the workload is drawn, `overrides={"seed": 2}` gives another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from operator import index
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import InvalidAction, ResetNeeded
from numpy.typing import NDArray

from hpcosim_client import PolicyError, View
from hpcosim_client.agents.pairing.choices import Choices, Rows
from hpcosim_client.agents.pairing.rounds import Rounds, features_of
from hpcosim_client.agents.pairing.site import Kind, kind_of
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_scenarios.running.library import switching_chance
from hpcosim_server.engine.simulation import Simulation
from hpcosim_training.environments.arguments import task_and_jobs, totals
from hpcosim_training.environments.pairing_task import (
    Invalid,
    PairingTask,
    Reward,
    check_arguments,
    check_task,
    forbidden,
    task_of,
)
from hpcosim_workloads.table import JobTable

NOT_BEGUN = "no episode has begun"


class JobNodePairingEnv(gymnasium.Env[Rows, np.int64]):
    """A simulation that stops at each decision of a pairing agent; see the module.

    The same choices give the same run as the policy `pairing`. It is made of a scenario, or of a
    task and jobs.

    Args:
        scenario: a scenario's file; its own scheduler is ignored.
        overrides: values of the scenario to change, by dotted path.
        reward: see the module; None: `foreseen` for an agent that sees `foreseen`, else `spent`.
        reward_scale: rewards are divided by this.
        usual_costs: what placing a job of a kind usually costs, J or J s: a baseline that is added
            to the reward of placing one. Every job is placed once, so the baseline adds the same
            sum to every run.
        most_decisions: an episode is truncated after so many; None: never.
        invalid: what happens on a forbidden action: `raise` an error, or take the `first` allowed.
        task: the task, settings and reward included.
        jobs: the workload.
        **settings: fields of `Pairing`: `sees`, `objective`, `window_jobs`, `wait` and so on.

    Attributes:
        task: the task.
        simulation: the simulation of this episode.
        choices: what is allowed now, the compact form of observation and mask.
        done: every job is over; also True before the first episode.

    Raises:
        ScenarioError, WorkloadError: the scenario is invalid, or its nodes draw no power.
        ValueError: an argument is invalid, or the arguments contradict each other.
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
        usual_costs: Mapping[Kind, float] | None = None,
        most_decisions: int | None = None,
        invalid: Invalid = "raise",
        task: PairingTask | None = None,
        jobs: JobTable | None = None,
        **settings: Any,
    ) -> None:
        check_arguments(reward_scale, most_decisions, invalid)
        if task is not None and (settings or reward is not None):
            raise ValueError("a task says settings and reward itself; change them there")
        how = partial(task_of, settings, reward)
        self.task, self._jobs = task_and_jobs(scenario, overrides, task, jobs, how)
        check_task(self.task, None if scenario is None else Path(scenario))
        self.reward_scale = reward_scale
        self._usual_costs = usual_costs or {}
        self._most_decisions = most_decisions
        self._invalid = invalid
        self._decisions = 0
        self._over = NOT_BEGUN  # why there is no next step; empty: there is
        self.done = True
        pairing = self.task.settings
        actions = pairing.window_jobs * self.task.platform.node_count + 1
        self._shape = (actions, features_of(pairing))
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, self._shape, np.float32)
        self.action_space = gymnasium.spaces.Discrete(actions)

    @property
    def objective(self) -> float:
        """The objective of this episode so far: energy, J, or energy x time, J s."""
        energy_j = self._energy_j()
        if self.task.settings.objective == "energy":
            return energy_j
        return energy_j * (self.simulation.now_s - self.simulation.start_s)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Rows, dict[str, Any]]:
        """Begin a new episode; a seed replaces the task's. There are no options.

        Raises:
            PolicyError: a job needs more than one node, or no job can be placed.
        """
        super().reset(seed=seed)
        if seed is not None:
            self.task = replace(self.task, seed=seed)
        task = self.task
        self._over = NOT_BEGUN
        rng, wakes = switching_chance(task.seed), task.rules.wake_on_allocation
        self.simulation = Simulation(task.platform, self._jobs, task.rules, rng)
        self._view = View(task.platform, task.seed, wake_on_allocation=wakes)
        self._rounds = Rounds(task.settings, self._view)
        self.done = False
        self._before = (0.0, self.simulation.start_s)
        self._advance()
        if self.done:
            raise PolicyError("there is nothing to decide: no job of the workload can be placed")
        self._decisions, self._over = 0, ""
        return self._observation(), self._info()

    def step(self, action: np.int64 | int) -> tuple[Rows, float, bool, bool, dict[str, Any]]:
        """Carry an action out, and simulate until the next decision.

        Raises:
            ResetNeeded: the episode is over, or has not begun.
            InvalidAction: there is no such action, or it is not allowed now.
            PolicyError: a job that was submitted meanwhile needs more than one node.
        """
        if self._over:
            raise ResetNeeded(f"{self._over}: reset before the next step")
        choice = self._choice(action)
        taken = int(self.choices.actions[choice])
        reward = self.choose(choice)
        truncated = not self.done and self._decisions == self._most_decisions
        if truncated:
            self._over = f"the episode was truncated after {self._decisions} decisions"
        info = self._info()
        if self._invalid == "first":
            info["action_taken"] = taken
        return self._observation(), reward, self.done, truncated, info

    def choose(self, choice: int) -> float:
        """Take one of `choices`, and return the reward: `step` without observation and mask.

        Args:
            choice: the index of the choice; the episode must not be over.
        """
        pair = self.choices.pair(choice)
        usual = 0.0 if pair is None else self._usual_costs.get(kind_of(pair[0]), 0.0)
        self._rounds.take(self._view, self.choices, choice)
        self._advance()
        self._decisions += 1
        if self.done:
            self._over = "the episode was terminated, every job is over"
        return self._reward(usual)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are allowed now; sb3-contrib asks for a method of this name.

        Raises:
            ResetNeeded: no episode has begun.
        """
        if self._over == NOT_BEGUN:
            raise ResetNeeded(f"{self._over}: reset before asking for the mask")
        mask = np.zeros(self._shape[0], dtype=np.bool_)
        mask[-1 if self.done else self.choices.actions] = True
        return mask

    def _advance(self) -> None:
        """Simulate until there is something to choose from, or every job is over."""
        view, simulation, rounds = self._view, self.simulation, self._rounds
        while not self.done:
            choices = rounds.look(view)
            if choices is not None:
                self.choices = choices
                return
            batch = simulation.advance(
                view.decisions, wake_on=view.wake_on, elapsed_s=view.elapsed_s
            )
            view.apply(batch.now_s, batch.events)
            self.done = batch.ended or (view.no_more_jobs and not view.queue and not view.running)
            if not self.done:
                rounds.begin(view)

    def _reward(self, usual: float) -> float:
        """Return the reward since the last decision, with the usual cost of its job added."""
        (before, before_s), self._before = self._before, self._cost()
        after, after_s = self._before
        if self.task.reward == "foreseen":
            return (before - after + usual) / self.reward_scale
        time_s = after_s - before_s if self.task.settings.objective == "edp" else 1.0
        return (usual - (after - before) * time_s) / self.reward_scale

    def _cost(self) -> tuple[float, float]:
        """Return what rewards are differences of, J or J s, and the time, s.

        The energy spent, or the objective as foreseen; at the end the objective itself.
        """
        now_s = self.simulation.now_s
        if self.task.reward == "spent":
            return self._energy_j(), now_s
        if self.done:
            return self.objective, now_s
        forecast = self._rounds.forecast
        span_s = forecast.horizon_s(self._view.now_s) - self.simulation.start_s
        foreseen_j = forecast.committed_j + forecast.idle_w * span_s
        time_s = span_s if self.task.settings.objective == "edp" else 1.0
        return foreseen_j * time_s, now_s

    def _energy_j(self) -> float:
        cluster = self.simulation.cluster
        cluster.settle(self.simulation.now_s)
        return sum(meter.energy_j for meter in cluster.meters)

    def _observation(self) -> Rows:
        rows = np.zeros(self._shape, dtype=np.float32)
        if not self.done:
            rows[self.choices.actions] = self.choices.rows
        return rows

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"action_mask": self.action_masks().view(np.int8)}
        return info | totals(self.simulation) if self.done else info

    def _choice(self, action: np.int64 | int) -> int:
        """Return the index of an action in `choices`."""
        try:
            number = index(action)
        except TypeError:
            raise InvalidAction(f"{action!r} is no action; one is a whole number") from None
        if not 0 <= number < self._shape[0]:
            raise InvalidAction(f"there is no action {number}, only 0 to {self._shape[0] - 1}")
        actions = self.choices.actions
        choice = int(actions.searchsorted(number))
        if choice < len(actions) and actions[choice] == number:
            return choice
        if self._invalid == "first":
            return 0
        raise InvalidAction(forbidden(self.choices, number))
