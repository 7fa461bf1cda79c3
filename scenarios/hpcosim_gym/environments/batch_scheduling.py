"""The Gymnasium environment `hpcosim/BatchScheduling-v1`: choose the next job of the queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from numpy.typing import NDArray

from hpcosim_client import View
from hpcosim_client.job import Job
from hpcosim_gym.environments.arguments import (
    check_render_mode,
    scenario_path,
    task_and_jobs,
    totals,
)
from hpcosim_gym.environments.batch_task import (
    BatchEpisode,
    BatchTask,
    Cost,
    Invalid,
    Objective,
    check_forms,
    check_task,
    choice_of,
    drawn_first,
    draws,
    episode_jobs,
    first_job,
    new_cost,
    no_decision,
    task_of,
)
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_scenarios.running.library import switching_chance
from hpcosim_schedulers.agents.batch.scene import (
    BatchRounds,
    Form,
    QueueChoices,
    QueueScene,
    Rows,
    by_name,
    flat,
    mask_of,
)
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.metrics import jobs_that_ran, slowdowns, waits
from hpcosim_workloads.table import JobTable

# The scheduler's view in the information of a step.


class EpisodeView(View):
    """The live view of an episode, which each step changes.

    Two views are equal if they show the same jobs at the same time. A deep copy is the view itself:
    some libraries copy the information of each step, and a copy would take longer than the step.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpisodeView) and self._shown() == other._shown()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __deepcopy__(self, _: dict[int, Any]) -> EpisodeView:
        return self

    def _shown(self) -> tuple[object, ...]:
        running = {number: job.start_s for number, job in self.running.items()}
        return self.now_s, self.queue.keys(), running, self.nodes.free.tolist()


Observation = dict[str, Rows] | Rows

FORMS: Mapping[Form, Callable[[QueueScene | None, int], Observation]] = {
    "dict": by_name,
    "flat": flat,
}
"""The observation of a decision, or after the last one, in each form; see `observation.flat`."""

METRICS = ("mean_wait_s", "mean_bounded_slowdown")


class BatchSchedulingEnv(gymnasium.Env[Observation, np.int64]):
    """Choose the next job of the queue, with EASY backfilling behind it.

    ## Description

    A cluster runs jobs that may take several nodes. Whenever at least two jobs wait and at least
    one of them has enough free cores, the agent chooses one of the first K waiting jobs. If it
    fits, it starts, and the agent chooses again. Otherwise it is the head of the queue until the
    next event: it has a reservation, and the other jobs are backfilled behind it in submission
    order, as under EASY. An agent that always chooses the first job is EASY itself. The same
    actions give the same run as the policies `batch` and `scheduled_by` of the client package. The
    environment needs no power model.

    Below, K is `window_jobs`.

    ## Action Space

    `Discrete(K)`: the place of a job in the queue. The mask allows those of waiting jobs. An action
    without a job chooses the first job; with `invalid="raise"` it is an error.

    ## Observation Space

    With `observation="dict"`, a `Dict` of `Box(0, 1, (K,), float32)` for each column of the jobs
    and `cluster`, `Box(0, 1, (8,), float32)`. With `observation="flat"`, one
    `Box(0, 1, (8 + 12 K,), float32)`: the cluster, then each column for all K places. Places
    without a job are 0. Times t, in s, are log(1 + t / 10 s), divided by its value at 30 days.

    | column | meaning |
    |---|---|
    | `visible` | 1 if a job waits at this place |
    | `requested_time` | requested run time |
    | `requested_area` | log(1 + a / 10) / log(1 + 10^11), a: requested run time (s) x cores |
    | `cores` | requested cores / cores of the cluster |
    | `log_cores` | log(1 + requested cores) / log(1 + cores of the cluster) |
    | `wait` | wait so far |
    | `long_wait` | wait so far / 7 days, at most 1 |
    | `wait_share` | wait / (wait + requested time) |
    | `fits` | 1 if as many cores are free |
    | `earliest_start` | time until as many cores are free, by the requests of running jobs |
    | `cores_beside` | cores then free beside those of the job / cores of the cluster |
    | `place` | number of jobs before it / number of visible jobs |

    The values of `cluster` are: free cores / cores; n / (n + 64) for n waiting jobs; x / (1 + x)
    for the requested work x of the visible jobs, in days of the whole cluster; their mean wait;
    and the cores that are free in 10 minutes and in 1, 4 and 16 hours, by requests / cores.

    ## Rewards

    | `reward` | reward of a step | sum over an episode |
    |---|---|---|
    | `wait` | minus the increase of (waiting time of all jobs / number of jobs), s | -mean wait |
    | `bounded_slowdown` | the same of their bounded slowdowns | -mean bounded slowdown |
    | `energy` | -(energy until the next decision), J | -energy |
    | a function | minus the increase of its value for the `BatchEpisode` | -(its last value) |

    Waiting jobs count with their wait so far, so that a cost is charged when it arises. The
    agent does not observe run times, but the reward uses them. Rewards are divided by
    `reward_scale`.

    ## Starting State

    The first decision of the workload or, with `episode_jobs`, of as many consecutive jobs from a
    random position, on an empty cluster. The seed of `reset` determines the positions. Parts of the
    workload without a decision are drawn again. `options={"first_job": n}` starts at job n, counted
    from 0.

    ## Episode End

    - Terminated: all jobs have finished. The observation is 0, and the mask allows the first place.
    - Truncated: only by `max_episode_steps` of `gymnasium.make`.

    ## Information

    | key | when | value |
    |---|---|---|
    | `action_mask` | always | int8[K], 1: allowed |
    | `view` | always | the `hpcosim_client.View` of the scheduler: queue, running jobs, nodes |
    | `action_taken` | each step | the place of the job that was chosen |
    | `mean_wait_s`, `mean_bounded_slowdown` | on termination | metrics of the whole run |
    | `energy_j`, `edp_js`, `makespan_s` | on termination | metrics of the whole run |

    The view is live: it shows the present state, not that of an earlier step. `action_masks()`
    returns the mask as expected by `sb3_contrib.MaskablePPO`.

    ## Arguments

    Pass either `scenario`, or both `task` and `jobs`.

    Args:
        scenario: path of a scenario file, or name of a shipped one; its scheduler, power manager,
            signals and failures are ignored.
        overrides: values that replace those of the scenario, by dotted path.
        observation: form of the observation, `dict` or `flat`.
        invalid: handling of an action without a job: choose the `first`, or `raise` an error.
        jobs: the workload.
        render_mode: None; there is no rendering.
        **settings: with `scenario`: fields of `BatchTask`: `window_jobs` (64), `episode_jobs`,
            `reward` (`bounded_slowdown`), `reward_scale`.

    Attributes:
        task: the task.
        workload: the jobs of which episodes are parts.
        invalid: see the arguments.
        simulation: the simulation of this episode.
        view: the scheduler's view of it.
        visible: the jobs among which this decision chooses.
        done: True once all jobs have finished, and before the first episode.

    Raises:
        ScenarioError, WorkloadError: the scenario is invalid.
        ValueError: an argument is invalid, or the arguments contradict each other.

    ## Version History

    - v1: initial version.
    """

    simulation: Simulation
    view: EpisodeView
    visible: list[Job]

    def __init__(
        self,
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
        check_render_mode(render_mode)
        check_forms(observation, invalid)
        if task is not None and settings:
            raise ValueError(
                f"task= already defines {', '.join(settings)}; change the task, or pass scenario= "
                "instead"
            )
        new_task = partial(task_of, settings)
        self.task, self.workload = task_and_jobs(
            scenario_path(scenario), overrides, task, jobs, new_task
        )
        check_task(self.task, self.workload)
        window = self.task.window_jobs
        self._form = FORMS[observation]
        self.invalid = invalid
        empty = self._form(None, window)
        spaces: dict[str, gymnasium.Space[Any]] = {
            name: Box(0.0, 1.0, part.shape, np.float32) for name, part in _parts(empty).items()
        }
        space: Any = spaces[""] if "" in spaces else gymnasium.spaces.Dict(spaces)
        self.observation_space = space
        self.action_space = gymnasium.spaces.Discrete(window)
        self.done = True
        self._started = False

    def another(self, observation: Form) -> BatchSchedulingEnv:
        """Return a new environment of the same task and workload."""
        return BatchSchedulingEnv(
            task=self.task, jobs=self.workload, observation=observation, invalid=self.invalid
        )

    @property
    def choices(self) -> QueueChoices:
        """The visible jobs of this decision with their observation, made anew."""
        return self._rounds.choices(self.view, self.visible)

    @property
    def cost(self) -> float:
        """The cost of this episode so far: minus the sum of its rewards, not scaled."""
        return self._spent

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a new episode.

        Args:
            seed: seed of the positions of episodes and of random switching times; None: go on.
            options: `first_job`: number of the first job of the episode.

        Raises:
            PolicyError: the workload has no decision.
            ValueError: an option is invalid.
        """
        super().reset(seed=seed)
        if seed is not None:
            self.task = replace(self.task, seed=seed)
        first = first_job(options, self.task, self.workload)
        for _ in range(draws(self.task, first)):
            at = drawn_first(self.task, self.workload, first, self.np_random)
            self._begin(episode_jobs(self.task, self.workload, at))
            if not self.done:
                return self._observation(), self._info()
        raise no_decision()

    def _begin(self, jobs: JobTable) -> None:
        """Start an episode and simulate until its first decision."""
        task, wakes = self.task, self.task.rules.wake_on_allocation
        rng = switching_chance(task.seed)
        self.simulation = Simulation(task.platform, jobs, task.rules, rng)
        self.view = EpisodeView(task.platform, task.seed, wake_on_allocation=wakes)
        self._episode = BatchEpisode(self.simulation, self.view, jobs)
        self._cost = new_cost(task.reward)
        self._rounds = BatchRounds(self.view, task.window_jobs)
        self.done, self._started = False, True
        self._advance()
        self._spent = 0.0

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Choose a job and simulate until the next decision.

        Raises:
            ResetNeeded: the episode is over or has not started.
            InvalidAction: the action does not exist, or it has no job and `invalid` is `raise`.
        """
        if self.done:
            raise ResetNeeded("the episode is over or has not started; call reset() before step()")
        choice = choice_of(action, len(self.visible), self.task.window_jobs, self.invalid)
        reward = self.choose(choice)
        info = self._info()
        info["action_taken"] = choice
        return self._observation(), reward, self.done, False, info

    def choose(self, choice: int) -> float:
        """Choose a visible job and return the reward: `step` without observation and mask.

        Args:
            choice: index into `visible`; the episode must not be over.
        """
        self._rounds.start_or_reserve(self.view, self.visible[choice])
        self._advance()
        before, self._spent = self._spent, self._cost(self._episode)
        return (before - self._spent) / self.task.reward_scale

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the action mask, bool[K]; sb3-contrib calls a method of this name.

        Raises:
            ResetNeeded: no episode has started.
        """
        if not self._started:
            raise ResetNeeded("no episode has started; call reset() before action_masks()")
        visible = 1 if self.done else len(self.visible)
        return mask_of(visible, self.task.window_jobs).view(np.bool_)

    def _advance(self) -> None:
        """Simulate until the next decision, or until all jobs have finished."""
        view, rounds, simulation = self.view, self._rounds, self.simulation
        while (visible := rounds.visible(view)) is None:
            batch = simulation.advance(
                view.decisions, wake_on=view.wake_on, elapsed_s=view.elapsed_s
            )
            if batch.ended:
                self.done = True
                return
            view.apply(batch.now_s, batch.events)
            rounds.begin(view)
        self.visible = visible

    def _observation(self) -> Observation:
        scene = None if self.done else self.choices.scene
        return self._form(scene, self.task.window_jobs)

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {
            "action_mask": self.action_masks().view(np.int8),
            "view": self.view,
        }
        if not self.done:
            return info
        ran = jobs_that_ran(self.simulation.record())
        metrics = {**waits(ran), **slowdowns(ran)}
        return info | {name: metrics[name] for name in METRICS} | totals(self.simulation)


def _parts(observation: Observation) -> dict[str, Rows]:
    """Return the arrays of an observation by name; the name of a flat one is empty."""
    return observation if isinstance(observation, dict) else {"": observation}
