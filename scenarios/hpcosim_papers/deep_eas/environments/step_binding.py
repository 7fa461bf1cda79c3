"""The Gymnasium environments `hpcosim/StepBinding-v1`: bind jobs to machines in whole steps.

`StepBindingVectorEnv` runs many job sequences as arrays; `StepBindingEnv` runs one.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import index
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Ints
from hpcosim_compiled.policies import missing_package
from hpcosim_gym.environments.arguments import (
    check_render_mode,
    library_of,
    scenario_path,
    settings_of,
)
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas, Machines, StepJobs
from hpcosim_papers.deep_eas.agent.step_runs import StepRuns, cost_rates
from hpcosim_papers.deep_eas.environments.step_machines import (
    machines_of,
    model_of,
    sequence,
    step_jobs,
)
from hpcosim_scenarios.model.scenario import Scalar

# The observations of `hpcosim/StepBinding-v1`.

Observation = dict[str, NDArray[np.int16]]

MAX_STEPS = np.iinfo(np.int16).max
OBSERVED = ("used", "cores", "waited", "steps", "rows", "behind", "since_arrival")


def observation_of(runs: StepRuns) -> Observation:
    """Return the observations of runs, with the runs as first dimension."""
    parts = runs.scene._asdict()
    return {
        name: parts[name][:, None] if parts[name].ndim == 1 else parts[name] for name in OBSERVED
    }


def observation_space(settings: DeepEas) -> gymnasium.spaces.Dict:
    """Return the space of the observations of one run."""
    machines, queue, horizon = settings.machines, settings.queue, settings.horizon
    bounds = {
        "used": (0, MAX_STEPS, (machines, horizon)),
        "cores": (0, settings.cores, (queue,)),
        "waited": (0, MAX_STEPS, (queue,)),
        "steps": (0, MAX_STEPS, (machines, queue)),
        "rows": (-1, horizon - 1, (machines, queue)),
        "behind": (0, MAX_STEPS, (1,)),
        "since_arrival": (0, MAX_STEPS, (1,)),
    }
    boxes: dict[str, gymnasium.Space[Any]] = {
        name: Box(low, high, shape, np.int16) for name, (low, high, shape) in bounds.items()
    }
    return gymnasium.spaces.Dict(boxes)


Bools = NDArray[np.bool_]

COMPILED = 16
"""Least number of runs that advance in compiled code."""

END_OF_RUN = np.iinfo(np.int64).max


class StepBindingVectorEnv(gymnasium.vector.VectorEnv[Observation, Ints, Any]):
    """Bind jobs to machines, in many runs side by side.

    ## Description

    The scheduling problem of Deep-EAS: machines with the same number of cores, and times in whole
    steps. The agent binds a waiting job to a machine, or holds until the next step. The aim is a
    small normalised energy-delay product of each job. Below, M is the number of machines, Q
    (`queue`) the number of visible waiting jobs, H (`horizon`) the number of planned steps.

    After an agent held for H steps on an idle cluster, the environment executes the action of
    energy-aware shortest job first instead, as the client's policy does.

    ## Action Space

    `Discrete(M x Q + 1)` for each run. Action `machine x Q + slot` binds the job of that slot to
    that machine. The last action, `M x Q`, holds. An infeasible action also holds, as in the paper.

    ## Observation Space

    A `Dict` of `Box` spaces, int16. Every array has the runs as an additional first dimension.

    | key | shape | name | unit | range |
    |---|---|---|---|---|
    | `used` | [M, H] | busy cores in each step of the plan, from now on | cores | 0 and up |
    | `cores` | [Q] | cores of the job in each slot; 0: empty slot | cores | 0 to machine size |
    | `waited` | [Q] | time the job has waited | steps | 0 and up |
    | `steps` | [M, Q] | expected run time of the job on each machine | steps | 0 and up |
    | `rows` | [M, Q] | step of its earliest start; -1: beyond the horizon | steps | -1 to H - 1 |
    | `behind` | [1] | waiting jobs without a slot | jobs | 0 and up |
    | `since_arrival` | [1] | time since the last submission | steps | 0 and up |

    The arrays are views and change with the next step.

    Where Numba is installed (`pip install 'hpcosim[fast]'`), 16 or more runs are stepped in
    compiled code, with the same numbers.

    ## Rewards

    Minus the cost accrued since the last decision, see `step_runs.accrued_cost`. The rewards of an
    episode sum to minus the sum of the normalised energy-delay products of its jobs.

    ## Starting State

    The submission of the first job, with empty machines. A scenario's model `bernoulli` draws a new
    sequence for each run at each reset; `jobs` are the same at each reset.

    ## Episode End

    - Terminated: all jobs have started. The last reward includes the cost of the running jobs.
    - Truncated: never.

    The environment does not reset runs automatically (`AutoresetMode.DISABLED`). It ignores the
    actions of terminated runs, and returns their last observation with the reward 0.

    ## Information

    | key | when | value |
    |---|---|---|
    | `action_mask` | always | int8[runs, M x Q + 1], 1: the action is feasible |

    ## Arguments

    Pass either `scenario`, or both `machines` and `jobs`.

    Args:
        num_envs: number of runs, 1 or more; ignored with `jobs`, which set it.
        scenario: path of a scenario file, or name of a shipped one; its scheduler is ignored.
        overrides: values that replace those of the scenario, by dotted path.
        machines: machines and settings.
        jobs: job sequences, one for each run.
        render_mode: None; there is no rendering.
        **settings: fields of `DeepEas`, such as `horizon`, `queue`, `step_s`; only with `scenario`.

    Attributes:
        machines: machines and settings.
        runs: the state of the runs; set by the first reset.

    Raises:
        ScenarioError, WorkloadError: the scenario is invalid.
        ValueError: an argument is invalid, or the arguments contradict each other.

    ## Version History

    - v1: initial version.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "autoreset_mode": AutoresetMode.DISABLED,
        "render_modes": [],
    }
    runs: StepRuns

    def __init__(
        self,
        num_envs: int = 1,
        scenario: str | Path | None = None,
        *,
        overrides: Mapping[str, Scalar] | None = None,
        machines: Machines | None = None,
        jobs: StepJobs | None = None,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        check_render_mode(render_mode)
        if not isinstance(num_envs, int) or num_envs < 1:
            raise ValueError(f"num_envs: expected an integer >= 1, got {num_envs!r}")
        self._jobs = jobs
        path = scenario_path(scenario)
        if path is not None and machines is None and jobs is None:
            library = library_of(path, overrides)
            self._model, self._seed = model_of(library.first, path), library.first.seed
            self.machines = machines_of(library.first, settings_of(settings, DeepEas), path)
        elif machines is not None and jobs is not None and not settings and scenario is None:
            self.machines, num_envs = machines, len(jobs.valid)
        else:
            raise ValueError(
                "pass either scenario=FILE (overrides= and settings are optional), or both "
                "machines= and jobs="
            )
        self._rngs: list[np.random.Generator] = []
        self.num_envs = num_envs
        self.single_observation_space = observation_space(self.machines.settings)
        self.single_action_space = Discrete(self.machines.settings.actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Any = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a new episode in every run.

        Args:
            seed: seeds of the job sequences: one for each run, or an integer s for s, s + 1, ...;
                None: continue the random number streams, which start from the scenario's seed.
            options: ignored.

        Raises:
            WorkloadError: the model draws sequences without jobs.
            ScenariosError: a job's time is not a whole number of steps, or it fits on no machine.
        """
        jobs = self._jobs if self._jobs is not None else self._sequences(seed)
        self.runs = self._new_runs(jobs)
        self._cost_rates = cost_rates(self.runs)
        self._accrued = self._cost(np.arange(self.num_envs))
        return self._observation(), self._info()

    def step(self, actions: Ints) -> tuple[Observation, Floats, Bools, Bools, dict[str, Any]]:
        """Execute an action in each run that is not over, and advance it to its next decision.

        Args:
            actions: int64[runs].

        Raises:
            ResetNeeded: all runs are over, or none has started.
            InvalidAction: not one integer for each run, or an action is out of range.
        """
        active = self.runs.active() if hasattr(self, "runs") else np.zeros(0, dtype=np.int64)
        if not len(active):
            raise ResetNeeded("all runs are over or not started; call reset() before step()")
        given = np.asarray(actions)
        if given.shape != (self.num_envs,) or given.dtype.kind not in "iu":
            shown = reprlib.repr(given.tolist())
            raise InvalidAction(f"action: expected {self.num_envs} integers, got {shown}")
        chosen = given[active].astype(np.int64)
        if (chosen < 0).any() or (chosen >= self.machines.settings.actions).any():
            last = self.machines.settings.actions - 1
            raise InvalidAction(f"action: expected 0 to {last}, got {chosen.tolist()}")
        self.runs.take(active, chosen)
        rewards = np.zeros(self.num_envs)
        cost = self._cost(active)
        rewards[active] = self._accrued[active] - cost
        self._accrued[active] = cost
        never = np.zeros(self.num_envs, dtype=np.bool_)
        return self._observation(), rewards, self.runs.done.copy(), never, self._info()

    def _new_runs(self, jobs: StepJobs) -> StepRuns:
        """Return runs of job sequences, compiled if they are many and Numba is installed."""
        if self.num_envs >= COMPILED and not missing_package():
            from hpcosim_papers.deep_eas.environments.step_runs_compiled import CompiledStepRuns

            with suppress(Exception):  # whatever Numba raises where it cannot compile
                return CompiledStepRuns(self.machines, jobs)
        return StepRuns(self.machines, jobs)

    def _sequences(self, seed: int | Sequence[int | None] | None) -> StepJobs:
        if seed is None and not self._rngs:
            seed = self._seed
        if isinstance(seed, int):
            seed = [seed + run for run in range(self.num_envs)]
        if seed is not None:
            self._rngs = [np.random.default_rng(one) for one in seed]
        tables = [sequence(self._model, rng) for rng in self._rngs]
        return step_jobs(self.machines.settings, self.machines.scale, tables)

    def _cost(self, selected: Ints) -> Floats:
        """Return the cost so far of some runs, float64[selected]; the total of finished runs."""
        runs = self.runs
        return runs.accrued_cost(
            self._cost_rates, selected, np.where(runs.done, END_OF_RUN, runs.now)[selected]
        )

    def _observation(self) -> Observation:
        return observation_of(self.runs)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.runs.scene.possible().view(np.int8)}


class StepBindingEnv(gymnasium.Env[Observation, np.int64]):
    """One run of `StepBindingVectorEnv`, which documents it; arrays have no dimension of runs.

    Args:
        scenario: path of a scenario file.
        **arguments: the other arguments of `StepBindingVectorEnv`, except `num_envs`.

    Raises:
        ValueError: an argument is invalid, or `jobs` has more than one run.
    """

    def __init__(self, scenario: str | Path | None = None, **arguments: Any) -> None:
        if "num_envs" in arguments:
            raise ValueError(
                "num_envs: this environment is one run; make a vector of runs with "
                'gymnasium.make_vec("hpcosim/StepBinding-v1", num_envs=..., scenario=...)'
            )
        self._envs = StepBindingVectorEnv(1, scenario, **arguments)
        if self._envs.num_envs != 1:
            raise ValueError(f"jobs: expected the jobs of one run, got {self._envs.num_envs} runs")
        self.observation_space = self._envs.single_observation_space
        self.action_space = self._envs.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a new episode, see `StepBindingVectorEnv.reset`."""
        super().reset(seed=seed)
        return _first(*self._envs.reset(seed=seed, options=options))

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Execute an action, see `StepBindingVectorEnv.step`."""
        try:
            number = index(action)
        except TypeError:
            raise InvalidAction(f"action: expected an integer, got {action!r}") from None
        observations, rewards, terminated, truncated, info = self._envs.step(np.array([number]))
        observation, info = _first(observations, info)
        return observation, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info


def _first(observations: Observation, info: dict[str, Any]) -> tuple[Observation, dict[str, Any]]:
    return {k: v[0].copy() for k, v in observations.items()}, {k: v[0] for k, v in info.items()}
