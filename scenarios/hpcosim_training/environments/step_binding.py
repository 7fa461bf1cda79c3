"""Binding jobs to machines, step by step, as Gymnasium environments, `hpcosim/StepBinding-v1`.

The decision of Deep-EAS, on machines of equal numbers of cores. All times are whole steps.
`StepBindingVectorEnv` runs many sequences of jobs as arrays; `StepBindingEnv` is one of them.
With M machines, Q slots of waiting jobs and a horizon of H steps:

| observation | Box, int16 | what, in steps or cores |
|---|---|---|
| `used` | [M, H] | cores taken in each row of the plans, from now on |
| `cores` | [Q] | of the job in each slot; 0: there is none |
| `waited` | [Q] | how long it has waited |
| `steps` | [M, Q] | how many steps it is expected to take |
| `rows` | [M, Q] | the row at which it would start; -1: not within the horizon |
| `behind` | [1] | jobs that wait behind those in slots |
| `since_arrival` | [1] | steps since the last job was submitted |

| space | what |
|---|---|
| action | Discrete(M x Q + 1); machine x Q + slot: bind that job; the last, M x Q: hold |
| reward | -(what was added to the cost since the last decision), see `step_costs.accrued` |

An action that is not possible holds, as in the paper. Rewards add up to minus the sum of the
normalised energy-delay products of the jobs. `info["action_mask"]`, int8[M x Q + 1], says which
actions are possible. An episode is a sequence of jobs, terminated when every job has begun; its
last reward accounts for all that is still to run. It is never truncated.

Once an agent has held for H steps on an idle cluster, the environment does in its place what
energy-aware shortest job first would do, as the client's policy does.

The vector environment does not reset by itself. It ignores the actions of runs that are over, and
returns their last observation, and the reward 0. Its arrays change with the next step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hpcosim_client.agents.deep_eas.settings import DeepEas
from hpcosim_client.job import Floats, Ints
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_scenarios.running.library import Library
from hpcosim_training.environments.step_costs import accrued, prices
from hpcosim_training.environments.step_jobs import StepJobs, step_jobs
from hpcosim_training.environments.step_machines import Machines, machines_of, model_of, sequence
from hpcosim_training.environments.step_runs import StepRuns

Observation = dict[str, NDArray[np.int16]]
Bools = NDArray[np.bool_]

MOST = np.iinfo(np.int16).max
OBSERVED = ("used", "cores", "waited", "steps", "rows", "behind", "since_arrival")
ALL_JOBS = np.iinfo(np.int64).max


class StepBindingVectorEnv(gymnasium.vector.VectorEnv[Observation, Ints, Any]):
    """Runs of sequences of jobs side by side; see the module.

    It is made of a scenario, whose model `bernoulli` draws a new sequence for each run at each
    reset, or of machines and jobs, which are the same at each reset.

    Args:
        num_envs: how many runs there are; with `jobs`, as many as these have.
        scenario: a scenario's file; its own scheduler is ignored.
        overrides: values of the scenario to change, by dotted path.
        machines: the machines and settings.
        jobs: the sequences, one a run.
        **settings: fields of `DeepEas`: `horizon`, `queue`, `step_s` and so on; with a scenario.

    Attributes:
        machines: the machines and settings.
        runs: the state of the runs, from the first reset on.

    Raises:
        ScenarioError, WorkloadError: the scenario is invalid.
        ValueError: the arguments contradict each other, or a setting is invalid.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012
    runs: StepRuns

    def __init__(
        self,
        num_envs: int = 1,
        scenario: str | Path | None = None,
        *,
        overrides: Mapping[str, Scalar] | None = None,
        machines: Machines | None = None,
        jobs: StepJobs | None = None,
        **settings: Any,
    ) -> None:
        self._jobs = jobs
        if scenario is not None and machines is None and jobs is None:
            path = Path(scenario)
            library = Library([path], overrides)
            self._model, self._seed = model_of(library.first, path), library.first.seed
            self.machines = machines_of(library.first, _settings(settings), path)
        elif machines is not None and jobs is not None and not settings and scenario is None:
            self.machines, num_envs = machines, len(jobs.there)
        else:
            raise ValueError(
                "an environment is made of scenario=FILE, with overrides and settings if need be, "
                "or of both machines= and jobs="
            )
        self._rngs: list[np.random.Generator] = []
        self.num_envs = num_envs
        self.single_observation_space = _space(self.machines.settings)
        self.single_action_space = Discrete(self.machines.settings.actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Any = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin new episodes in all runs. There are no options.

        Args:
            seed: seed of the sequences: one for each run, or one for the first, which counts up;
                None: go on drawing, at first from the scenario's seed.
            options: ignored.

        Raises:
            WorkloadError: no sequence of many had a job.
            ScenariosError: a job takes no whole number of steps, or fits on no machine.
        """
        jobs = self._jobs if self._jobs is not None else self._drawn(seed)
        self.runs = StepRuns(self.machines, jobs)
        self._prices = prices(self.runs)
        self._accrued = self._cost(np.arange(self.num_envs))
        return self._observation(), self._info()

    def step(self, actions: Ints) -> tuple[Observation, Floats, Bools, Bools, dict[str, Any]]:
        """Carry out an action in each run that is not over, and go on to its next decision.

        Raises:
            ResetNeeded: every run is over, or none has begun.
            InvalidAction: there is no such action.
        """
        active = self.runs.active() if hasattr(self, "runs") else np.zeros(0, dtype=np.int64)
        if not len(active):
            raise ResetNeeded("every run is over, or none has begun: reset before the next step")
        chosen = np.asarray(actions)[active]
        if (chosen < 0).any() or (chosen >= self.machines.settings.actions).any():
            most = self.machines.settings.actions - 1
            raise InvalidAction(f"there are actions 0 to {most}, not {chosen.tolist()}")
        self.runs.take(active, chosen)
        rewards = np.zeros(self.num_envs)
        cost = self._cost(active)
        rewards[active] = self._accrued[active] - cost
        self._accrued[active] = cost
        never = np.zeros(self.num_envs, dtype=np.bool_)
        return self._observation(), rewards, self.runs.done.copy(), never, self._info()

    def _drawn(self, seed: int | Sequence[int | None] | None) -> StepJobs:
        if seed is None and not self._rngs:
            seed = self._seed
        if isinstance(seed, int):
            seed = [seed + run for run in range(self.num_envs)]
        if seed is not None:
            self._rngs = [np.random.default_rng(one) for one in seed]
        tables = [sequence(self._model, rng) for rng in self._rngs]
        return step_jobs(self.machines.settings, self.machines.scale, tables)

    def _cost(self, some: Ints) -> Floats:
        """Return what some runs have cost so far, float64[runs]; of those over, altogether."""
        runs = self.runs
        return accrued(runs, self._prices, some, np.where(runs.done, ALL_JOBS, runs.now)[some])

    def _observation(self) -> Observation:
        parts = self.runs.scene._asdict()
        return {
            name: parts[name][:, None] if parts[name].ndim == 1 else parts[name]
            for name in OBSERVED
        }

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.runs.scene.possible().view(np.int8)}


class StepBindingEnv(gymnasium.Env[Observation, np.int64]):
    """One run; see the module. Its arguments are those of `StepBindingVectorEnv`."""

    def __init__(self, scenario: str | Path | None = None, **arguments: Any) -> None:
        self._envs = StepBindingVectorEnv(1, scenario, **arguments)
        if self._envs.num_envs != 1:
            raise ValueError(f"jobs must be of one run, not {self._envs.num_envs}")
        self.observation_space = self._envs.single_observation_space
        self.action_space = self._envs.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a new episode, see `StepBindingVectorEnv.reset`."""
        super().reset(seed=seed)
        return _first(*self._envs.reset(seed=seed, options=options))

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Carry an action out, see `StepBindingVectorEnv.step`."""
        observations, rewards, terminated, truncated, info = self._envs.step(np.array([action]))
        observation, info = _first(observations, info)
        return observation, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info


def _first(observations: Observation, info: dict[str, Any]) -> tuple[Observation, dict[str, Any]]:
    return {k: v[0].copy() for k, v in observations.items()}, {k: v[0] for k, v in info.items()}


def _settings(fields: Mapping[str, Any]) -> DeepEas:
    try:
        return msgspec.convert(fields, DeepEas)
    except msgspec.ValidationError as error:
        raise ValueError(f"settings of Deep-EAS: {error}") from None


def _space(settings: DeepEas) -> gymnasium.spaces.Dict:
    machines, queue, horizon = settings.machines, settings.queue, settings.horizon
    bounds = {
        "used": (0, MOST, (machines, horizon)),
        "cores": (0, settings.cores, (queue,)),
        "waited": (0, MOST, (queue,)),
        "steps": (0, MOST, (machines, queue)),
        "rows": (-1, horizon - 1, (machines, queue)),
        "behind": (0, MOST, (1,)),
        "since_arrival": (0, MOST, (1,)),
    }
    boxes: dict[str, gymnasium.Space[Any]] = {
        name: Box(low, high, shape, np.int16) for name, (low, high, shape) in bounds.items()
    }
    return gymnasium.spaces.Dict(boxes)
