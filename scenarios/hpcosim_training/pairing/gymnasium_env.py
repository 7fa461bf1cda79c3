"""Pairing jobs with nodes as a Gymnasium environment, `hpcosim/JobNodePairing-v1`.

`hpcosim_training.gymnasium_envs` registers it. With S = `window_jobs` slots and N nodes:

| space | what |
|---|---|
| observation | Box, float32[S x N + 1, F], each value from 0 to 1, without a unit |
| action | Discrete(S x N + 1); slot x N + node: start the job there; the last, S x N: wait |

Row a of an observation tells of action a; it is zeros where that may not be chosen. What is
seen and may be chosen is what `Rounds` offers, here and wherever the agent schedules.

| `sees` | F | columns |
|---|---|---|
| `papers` | 10 | see `papers_rows`; the row of waiting is always zeros |
| `papers_no_energy` | 7 | the first seven of these |
| `foreseen` | `foreseen_rows.COLUMNS` | see there; of equal choices the first is offered |

| `reward` | objective `energy` | objective `edp` |
|---|---|---|
| `spent` | -(energy until the next decision), J | that times the time until then, J s |
| `foreseen` | -(what the choice adds to the energy foreseen), J | -(to energy x makespan), J s |

All are divided by `reward_scale`. Those of `foreseen` add up to minus the run's objective, those
of `spent` to minus its energy, and under `edp` to no such thing; see `environment.Task`. Without
`reward`, it is `foreseen` for who sees `foreseen`, else `spent`.

| info | when | what |
|---|---|---|
| `action_mask` | always | int8[S x N + 1], 1: may be chosen |
| `action_taken` | with `invalid="first"`, each step | the action that was carried out |
| `energy_j`, `edp_js`, `makespan_s` | when terminated | of the whole run, see `metrics` |

An episode is a whole workload. It is terminated when every job is over, and truncated when
`most_decisions` were taken before that. When it is terminated there is nothing to see, and the
mask has the wait action alone, so that probabilities can still be made of it.

A forbidden action is an error, as a learner that doesn't know of the mask would learn amiss. With
`invalid="first"` the first that is allowed is carried out instead, for whoever samples
`action_space` without the mask, as Gymnasium's own `check_env` does.

The seed of `reset` replaces the task's, but nothing in a run of this agent is drawn: the same
actions bring the same episode. Of a workload that is drawn `overrides={"seed": 2}` is another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from operator import index
from pathlib import Path
from typing import Any, Literal, get_args

import gymnasium
import msgspec
import numpy as np
from gymnasium.error import InvalidAction, ResetNeeded
from numpy.typing import NDArray

from hpcosim_client.agents.pairing.choices import Choices, Rows
from hpcosim_client.agents.pairing.rounds import features_of
from hpcosim_client.agents.pairing.settings import Pairing
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.library import rules_of
from hpcosim_training.pairing.environment import (
    PairingEnvironment,
    Reward,
    Task,
    usual_reward,
)
from hpcosim_training.subject import refuse_without_power, task_and_jobs, totals
from hpcosim_workloads.table import JobTable

Invalid = Literal["raise", "first"]

MOST_NAMED = 12  # actions in a message
NOT_BEGUN = "no episode has begun"


class JobNodePairingEnv(gymnasium.Env[Rows, np.int64]):
    """See the module. Either a scenario is given, or a task and jobs.

    Args:
        scenario: a scenario's file; its own scheduler is of no account.
        overrides: values of the scenario to change, by dotted path.
        reward: see the module; None: `foreseen` for who sees `foreseen`, else `spent`.
        reward_scale: rewards are divided by this.
        most_decisions: an episode is truncated after so many; None: never.
        invalid: what comes of an action that the mask forbids.
        task: what is to be learned, settings and reward included.
        jobs: the workload.
        **settings: those of `Pairing`: `sees`, `objective`, `window_jobs`, `wait` and so on.

    Raises:
        ScenarioError, WorkloadError: the scenario can't be used, or its nodes draw no power.
        ValueError: the arguments are no good, or don't go together.
    """

    def __init__(
        self,
        scenario: str | Path | None = None,
        *,
        overrides: Mapping[str, Scalar] | None = None,
        reward: Reward | None = None,
        reward_scale: float = 1.0,
        most_decisions: int | None = None,
        invalid: Invalid = "raise",
        task: Task | None = None,
        jobs: JobTable | None = None,
        **settings: Any,
    ) -> None:
        _check(reward_scale, most_decisions, invalid)
        if task is not None and (settings or reward is not None):
            raise ValueError("a task says settings and reward itself; change them there")
        how = partial(_task_of, settings, reward)
        whole, workload = task_and_jobs(scenario, overrides, task, jobs, how)
        _check_task(whole, scenario)
        self._environment = PairingEnvironment(whole, workload, reward_scale)
        self._most_decisions = most_decisions
        self._invalid = invalid
        self._decisions = 0
        self._over = NOT_BEGUN  # why there is no next step; empty: there is
        self._shape = _shape(whole)
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, self._shape, np.float32)
        self.action_space = gymnasium.spaces.Discrete(self._shape[0])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Rows, dict[str, Any]]:
        """Begin anew; a seed replaces the task's. There are no options.

        Raises:
            PolicyError: a job can't go to one node.
        """
        super().reset(seed=seed)
        if seed is not None:
            self._environment.task = replace(self._environment.task, seed=seed)
        self._over = NOT_BEGUN
        self._environment.reset()
        self._decisions, self._over = 0, ""
        return self._seen(), self._info()

    def step(self, action: np.int64 | int) -> tuple[Rows, float, bool, bool, dict[str, Any]]:
        """Choose, and let time pass until the next decision.

        Raises:
            ResetNeeded: the episode is over, or has not begun.
            InvalidAction: there is no such action, or it may not be chosen now.
            PolicyError: a job that has come can't go to one node.
        """
        if self._over:
            raise ResetNeeded(f"{self._over}: reset before the next step")
        environment = self._environment
        choice = self._choice(action)
        taken = int(environment.choices.actions[choice])
        reward = environment.step(choice)
        self._decisions += 1
        terminated = environment.done
        truncated = not terminated and self._decisions == self._most_decisions
        if terminated:
            self._over = "the episode was terminated, every job is over"
        elif truncated:
            self._over = f"the episode was truncated after {self._decisions} decisions"
        info = self._info()
        if self._invalid == "first":
            info["action_taken"] = taken
        return self._seen(), reward, terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions may be chosen now, by the name sb3-contrib asks for.

        Raises:
            ResetNeeded: no episode has begun.
        """
        if self._over == NOT_BEGUN:
            raise ResetNeeded(f"{self._over}: reset before asking for the mask")
        mask = np.zeros(self._shape[0], dtype=np.bool_)
        mask[-1 if self._environment.done else self._environment.choices.actions] = True
        return mask

    def _seen(self) -> Rows:
        seen = np.zeros(self._shape, dtype=np.float32)
        if not self._environment.done:
            choices = self._environment.choices
            seen[choices.actions] = choices.rows
        return seen

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"action_mask": self.action_masks().view(np.int8)}
        return info | totals(self._environment.simulation) if self._environment.done else info

    def _choice(self, action: np.int64 | int) -> int:
        """Return which of the choices the action is."""
        try:
            number = index(action)
        except TypeError:
            raise InvalidAction(f"{action!r} is no action; one is a whole number") from None
        if not 0 <= number < self._shape[0]:
            raise InvalidAction(f"there is no action {number}, only 0 to {self._shape[0] - 1}")
        choices = self._environment.choices
        choice = int(choices.actions.searchsorted(number))
        if choice < len(choices.actions) and choices.actions[choice] == number:
            return choice
        if self._invalid == "first":
            return 0
        raise InvalidAction(_forbidden(choices, number))


def _forbidden(choices: Choices, action: int) -> str:
    """Return why an action can't be carried out."""
    if action == choices.waiting:
        what = f"action {action} waits"
    else:
        slot, node = divmod(action, choices.nodes)
        jobs = choices.jobs
        job = f"job {jobs[slot].job_id}" if slot < len(jobs) else "without a job"
        what = f"action {action} pairs slot {slot} ({job}) with node {node}"
    allowed = choices.actions.tolist()
    named = ", ".join(map(str, allowed[:MOST_NAMED])) + ", ..." * (len(allowed) > MOST_NAMED)
    return f"{what}, which the mask forbids; of {len(allowed)} allowed actions: {named}"


def _shape(task: Task) -> tuple[int, int]:
    settings = task.settings
    return settings.window_jobs * task.platform.node_count + 1, features_of(settings)


def _task_of(settings: Mapping[str, Any], reward: Reward | None, scenario: Scenario) -> Task:
    try:
        pairing = msgspec.convert(settings, Pairing)
    except msgspec.ValidationError as error:
        raise ValueError(f"settings of a pairing agent: {error}") from None
    reward = reward or usual_reward(pairing.sees)
    return Task(scenario.platform, pairing, reward, rules_of(scenario), scenario.seed)


def _check(reward_scale: float, most_decisions: int | None, invalid: str) -> None:
    if not 0.0 < reward_scale < np.inf:
        raise ValueError(f"reward_scale must be above 0 and finite, not {reward_scale}")
    if most_decisions is not None and most_decisions < 1:
        raise ValueError(f"most_decisions must be 1 or more, or None, not {most_decisions}")
    if invalid not in get_args(Invalid):
        raise ValueError(f"invalid must be one of {', '.join(get_args(Invalid))}, not {invalid!r}")


def _check_task(task: Task, scenario: str | Path | None) -> None:
    if task.reward not in get_args(Reward):
        raise ValueError(
            f"reward must be one of {', '.join(get_args(Reward))}, not {task.reward!r}"
        )
    if task.reward == "foreseen" and task.settings.sees != "foreseen":
        raise ValueError(f"who sees {task.settings.sees} foresees no reward; reward must be spent")
    refuse_without_power(task.platform, None if scenario is None else Path(scenario))
