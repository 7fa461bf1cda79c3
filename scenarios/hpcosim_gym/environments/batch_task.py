"""The task of a batch agent: cluster, visible jobs, episodes and reward."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from hpcosim_client import PolicyError, View
from hpcosim_client.job import Floats
from hpcosim_gym.environments.arguments import check_power, did_you_mean
from hpcosim_protocol import Platform
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.library import rules_of
from hpcosim_schedulers.agents.batch.scene import Form
from hpcosim_schedulers.heuristics.easy import MAX_WINDOW_JOBS, WINDOW_JOBS
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.record.metrics import BOUND_S, jobs_that_ran, slowdowns, waits
from hpcosim_workloads.shaping import window_by_number
from hpcosim_workloads.table import JobTable

Invalid = Literal["first", "raise"]

MAX_DRAWS = 100
"""Attempts to draw a window of the workload with at least one decision."""


Objective = Literal["wait", "bounded_slowdown", "energy"]


@dataclass(frozen=True, slots=True)
class BatchTask:
    """The task of a batch agent, without the workload.

    Attributes:
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


def drawn_first(
    task: BatchTask, jobs: JobTable, first: int | None, rng: np.random.Generator
) -> int:
    """Return the number of the first job of an episode, counted from 0.

    Args:
        jobs: the workload.
        first: the number; None: a random one, unless the whole workload is the episode.
        rng: random number generator.
    """
    if first is not None or task.episode_jobs is None:
        return first or 0
    return int(rng.integers(len(jobs) - task.episode_jobs + 1))


def draws(task: BatchTask, first: int | None) -> int:
    """Return how often an episode may be drawn until it has a decision."""
    return 1 if task.episode_jobs is None or first is not None else MAX_DRAWS


def no_decision() -> PolicyError:
    """Return the error of a workload without a decision."""
    return PolicyError(
        "there is no decision to take: never do two jobs wait while one of them fits; expected "
        "a workload with a higher load"
    )


def episode_jobs(task: BatchTask, jobs: JobTable, first: int) -> JobTable:
    """Return the jobs of an episode.

    Args:
        jobs: the workload.
        first: number of the first job, counted from 0.
    """
    count = task.episode_jobs
    return jobs if count is None else window_by_number(jobs, first, first + count)


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


class BatchEpisode(NamedTuple):
    """An episode: the arguments of a cost.

    Attributes:
        simulation: the simulation, with everything that the scheduler does not know.
        view: the scheduler's view.
        jobs: the jobs of the episode.
    """

    simulation: Simulation
    view: View
    jobs: JobTable


Cost = Callable[[BatchEpisode], float]
"""Returns the cost of an episode so far; lower is better."""


class JobCost:
    """The mean over the jobs of an episode of a cost that grows while they wait.

    Args:
        of: returns the cost of jobs for the waits float64[n], s, of jobs with the run times
            float64[n], s.
        final: name of the metric that the cost equals at the end of an episode.
    """

    def __init__(self, of: Callable[[Floats, Floats], Floats], final: str) -> None:
        self._of, self._final = of, final
        self._first = 0  # jobs before this row do not wait any more
        self._settled = 0.0  # sum of their costs
        self._requests, self._last = -1, 0.0  # of the last call

    def __call__(self, episode: BatchEpisode) -> float:
        """Return the cost so far; jobs that are not submitted yet have none."""
        simulation, recording = episode.simulation, episode.simulation.recording
        if simulation.requests == self._requests:  # no time has passed
            return self._last
        self._requests = simulation.requests
        if recording.over == len(episode.jobs):
            ran = jobs_that_ran(simulation.record())
            self._last = float({**waits(ran), **slowdowns(ran)}[self._final])
        else:
            self._last = self._so_far(episode) / len(episode.jobs)
        return self._last

    def _so_far(self, episode: BatchEpisode) -> float:
        """Return the sum of the costs of the jobs that were submitted."""
        recording, first = episode.simulation.recording, self._first
        if recording.requeues:  # a job that had started may wait again
            first, self._settled = 0, 0.0
        # Copies, because a column does not grow while NumPy reads it.
        submit_s = np.frombuffer(recording.submit_s[first:])
        left_s = np.array(recording.start_s[first:])  # when they stopped waiting
        if recording.ended_idle:  # cancelled jobs
            ended_s = np.frombuffer(recording.end_s[first:])
            left_s = np.where(np.isnan(left_s), ended_s, left_s)
        waiting = np.isnan(left_s)
        left_s[waiting] = episode.simulation.now_s
        costs = self._of(left_s - submit_s, episode.jobs.run_s[first : first + len(left_s)])
        total = self._settled + float(costs.sum())
        settled = int(waiting.argmax()) if waiting.any() else len(costs)
        self._first = first + settled
        self._settled += float(costs[:settled].sum())
        return total


def _bounded_slowdown(wait_s: Floats, run_s: Floats) -> Floats:
    slowdown: Floats = np.maximum(1.0, (wait_s + run_s) / np.maximum(run_s, BOUND_S))
    return slowdown


def _wait(wait_s: Floats, _: Floats) -> Floats:
    return wait_s


def energy_j(simulation: Simulation) -> float:
    """Return the energy that all nodes have drawn, J."""
    cluster = simulation.cluster
    cluster.settle(simulation.now_s)
    return sum(meter.energy_j for meter in cluster.meters)


def _energy(episode: BatchEpisode) -> float:
    return energy_j(episode.simulation)


OBJECTIVES: Mapping[Objective, Callable[[], Cost]] = {
    "wait": lambda: JobCost(_wait, "mean_wait_s"),
    "bounded_slowdown": lambda: JobCost(_bounded_slowdown, "mean_bounded_slowdown"),
    "energy": lambda: _energy,
}
"""New costs of an episode by name."""


def new_cost(reward: Objective | Cost) -> Cost:
    """Return a new cost for an episode.

    Raises:
        ValueError: the reward is unknown.
    """
    if callable(reward):
        return reward
    if reward not in OBJECTIVES:
        known = ", ".join(get_args(Objective))
        raise ValueError(f"reward: expected one of {known} or a function, got {reward!r}")
    return OBJECTIVES[reward]()
