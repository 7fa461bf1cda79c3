"""The task of a batch agent: cluster, visible jobs, episodes and reward."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from hpcosim_gym.environments.arguments import check_power, did_you_mean
from hpcosim_gym.environments.batch_costs import Cost, Objective, new_cost
from hpcosim_protocol import Platform
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.library import rules_of
from hpcosim_schedulers.agents.batch.scene import Form
from hpcosim_schedulers.heuristics.easy import MAX_WINDOW_JOBS, WINDOW_JOBS
from hpcosim_sim.engine.simulation import Rules
from hpcosim_workloads.shaping import window_by_number
from hpcosim_workloads.table import JobTable

Invalid = Literal["first", "raise"]

MAX_DRAWS = 100
"""Attempts to draw a window of the workload with at least one decision."""


@dataclass(frozen=True, slots=True)
class BatchTask:
    """The task of a batch agent, without the workload.

    Attributes:
        platform: the cluster.
        window_jobs: number of visible jobs, the first of the queue; 1 to 1000.
        episode_jobs: number of consecutive jobs of an episode, from a random position; None: the
            whole workload.
        reward: minus the increase of the mean wait, s; of the mean bounded slowdown; of the energy,
            J; or of the result of a function of a `BatchEpisode`.
        reward_scale: divisor of the rewards, > 0.
        rules: the rules of the simulation.
        seed: seed of random switching times.
    """

    platform: Platform
    window_jobs: int = WINDOW_JOBS
    episode_jobs: int | None = None
    reward: Objective | Cost = "bounded_slowdown"
    reward_scale: float = 1.0
    rules: Rules = field(default_factory=Rules)
    seed: int = 0


SETTINGS = ("window_jobs", "episode_jobs", "reward", "reward_scale")
"""Fields of a task that a scenario does not define."""


def task_of(changes: Mapping[str, Any], scenario: Scenario) -> BatchTask:
    """Return the task of a scenario.

    Args:
        changes: fields of `SETTINGS` that replace their defaults.
        scenario: the scenario; its scheduler is ignored.

    Raises:
        ValueError: a field is unknown.
    """
    for name in changes:
        if name not in SETTINGS:
            hint = did_you_mean(name, SETTINGS)
            raise ValueError(f"unknown argument {name!r}{hint}; settings: {', '.join(SETTINGS)}")
    task = BatchTask(scenario.platform, rules=rules_of(scenario), seed=scenario.seed)
    return replace(task, **changes)


def check_task(task: BatchTask, jobs: JobTable) -> None:
    """Check the settings of a task.

    Raises:
        ScenarioError: the reward is the energy, and no node draws power.
        ValueError: a setting is out of range.
    """
    _check_count("window_jobs", task.window_jobs, MAX_WINDOW_JOBS)
    if task.episode_jobs is not None:
        _check_count("episode_jobs", task.episode_jobs, len(jobs))
    if not 0.0 < task.reward_scale < np.inf:
        raise ValueError(f"reward_scale: expected a finite number > 0, got {task.reward_scale}")
    new_cost(task.reward)
    if task.reward == "energy":
        check_power(task.platform, None)


def check_forms(observation: str, invalid: str) -> None:
    """Check the names of the observation and of the handling of masked actions.

    Raises:
        ValueError: a name is unknown.
    """
    for name, value, kind in (("observation", observation, Form), ("invalid", invalid, Invalid)):
        if value not in get_args(kind):
            raise ValueError(f"{name}: expected one of {', '.join(get_args(kind))}, got {value!r}")


def first_job(options: Mapping[str, Any] | None, task: BatchTask, jobs: JobTable) -> int | None:
    """Return the option `first_job` of `reset`; None: the episode starts at a random job.

    Raises:
        ValueError: it is out of range.
    """
    first = None if options is None else options.get("first_job")
    if first is None:
        return None
    most = len(jobs) - (len(jobs) if task.episode_jobs is None else task.episode_jobs)
    try:
        number = operator.index(first)
    except TypeError:
        number = -1
    if not 0 <= number <= most:
        raise ValueError(f"options['first_job']: expected an integer from 0 to {most}, got {first}")
    return number


def episode_jobs(
    task: BatchTask, jobs: JobTable, first: int | None, rng: np.random.Generator
) -> JobTable:
    """Return the jobs of an episode.

    Args:
        task: the task.
        jobs: the workload.
        first: number of the first job, counted from 0; None: a random one.
        rng: random number generator.
    """
    count = task.episode_jobs
    if count is None:
        return jobs
    if first is None:
        first = int(rng.integers(len(jobs) - count + 1))
    return window_by_number(jobs, first, first + count)


def choice_of(action: object, visible: int, window_jobs: int, invalid: Invalid) -> int:
    """Return the index of the visible job that an action chooses.

    Args:
        action: number of the action.
        visible: number of visible jobs.
        window_jobs: number of actions.
        invalid: `first`: return 0 for an action without a job.

    Raises:
        InvalidAction: the action does not exist, or it has no job and `invalid` is `raise`.
    """
    from gymnasium.error import InvalidAction  # the tasks are read without gymnasium

    try:
        number = operator.index(action)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidAction(f"action: expected an integer, got {action!r}") from None
    if not 0 <= number < window_jobs:
        raise InvalidAction(f"action: expected 0 to {window_jobs - 1}, got {number}")
    if number < visible:
        return number
    if invalid == "first":
        return 0
    raise InvalidAction(f"action {number} is masked: {visible} jobs are visible, from 0")


def _check_count(name: str, value: object, most: int) -> None:
    if not isinstance(value, int) or not 1 <= value <= most:
        raise ValueError(f"{name}: expected an integer from 1 to {most}, got {value!r}")
