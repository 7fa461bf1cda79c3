"""Rollouts: decisions and rewards of environments that run side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpcosim_client.job import Floats, Ints

Logs = NDArray[np.floating]


class Observations(Protocol):
    """A batch of observations."""

    def take(self, rows: Tensor) -> Self:
        """Return the selected observations."""


Obs = TypeVar("Obs", bound=Observations)
E = TypeVar("E", bound=gymnasium.Env[Any, Any])
Obs_co = TypeVar("Obs_co", bound=Observations, covariant=True)

Act = Callable[[Obs, Ints], Ints]
"""Takes the observations and indices of the active runs; returns their actions."""

Sample = Callable[[Obs, Ints], tuple[Ints, Logs]]
"""An `Act` that samples; it also returns log-probabilities, float[decisions] or [D, parts]."""


class Runs(Protocol[Obs_co]):
    """Episodes that run side by side, each to its own end.

    Attributes:
        active: bool[runs], False after the end of the episode.
    """

    active: NDArray[np.bool_]

    def observe(self) -> Obs_co:
        """Return the observations of the active runs."""

    def step(self, actions: Ints) -> Floats:
        """Execute an action in each active run; return the rewards, float64[active]."""


def gymnasium_step(env: gymnasium.Env[Any, Any], action: Any) -> tuple[float, bool]:
    """Step an environment; return the reward, and whether the episode is over."""
    _, reward, terminated, truncated, _ = env.step(action)
    return float(reward), terminated or truncated


class SideBySide(Generic[E, Obs]):
    """Gymnasium environments as `Runs`. The constructor resets all of them.

    Args:
        envs: the environments.
        observe: returns the observations of some environments.
        step: steps an environment; returns the reward, and whether the episode is over.
    """

    def __init__(
        self,
        envs: Sequence[E],
        observe: Callable[[Sequence[E]], Obs],
        step: Callable[[E, Any], tuple[float, bool]] = gymnasium_step,
    ) -> None:
        self._envs, self._observe, self._step = envs, observe, step
        for env in envs:
            env.reset()
        self.active = np.ones(len(envs), dtype=np.bool_)

    def observe(self) -> Obs:
        """Implement `Runs.observe`."""
        return self._observe([self._envs[run] for run in np.flatnonzero(self.active).tolist()])

    def step(self, actions: Ints) -> Floats:
        """Implement `Runs.step`."""
        runs = np.flatnonzero(self.active).tolist()
        rewards = np.zeros(len(runs))
        for at, (run, action) in enumerate(zip(runs, actions, strict=True)):
            rewards[at], over = self._step(self._envs[run], action)
            self.active[run] = not over
        return rewards


@dataclass(frozen=True, slots=True)
class Rollout(Generic[Obs]):
    """Decisions and rewards of E runs; those of a run are consecutive, in order of time.

    Attributes:
        observations: of the D decisions.
        actions: int64[D], or int64[D, parts].
        log_probabilities: float32[D, parts], of the actions at sampling time.
        rewards: float64[D].
        episode: int64[D], the run of each decision.
        final: observations after the last decision of the truncated runs; None: there are none.
        truncated: bool[E], True for runs that were not over after their last decision.
        environment_s: CPU time of the environments, s; the rest of the time is the network's.
    """

    observations: Obs
    actions: Tensor
    log_probabilities: Tensor
    rewards: Floats
    episode: Ints
    final: Obs | None
    truncated: NDArray[np.bool_]
    environment_s: float = 0.0

    def __len__(self) -> int:
        return len(self.rewards)


def play(runs: Runs[Obs], act: Act[Obs]) -> None:
    """Run all episodes to their ends."""
    while runs.active.any():
        runs.step(act(runs.observe(), np.flatnonzero(runs.active)))


def collect(
    runs: Runs[Obs],
    sample: Sample[Obs],
    join: Callable[[Sequence[Obs]], Obs],
    steps: int | None = None,
) -> Rollout[Obs]:
    """Run all episodes to their ends, or for a number of decisions, and return the rollout.

    Args:
        runs: the runs; at least one is active.
        sample: samples actions.
        join: concatenates observations.
        steps: maximum number of decisions of each run; None: no limit.
    """
    numbers, observed, taken, logs = [], [], [], []
    rewards: list[Floats] = []
    environment_s = 0.0
    while runs.active.any() and (steps is None or len(rewards) < steps):
        active, began_s = np.flatnonzero(runs.active), time.process_time()
        observations = runs.observe()
        environment_s += time.process_time() - began_s
        actions, log_probabilities = sample(observations, active)
        numbers.append(active)
        observed.append(observations)
        taken.append(actions)
        logs.append(log_probabilities)
        began_s = time.process_time()
        rewards.append(runs.step(actions))
        environment_s += time.process_time() - began_s
    episode = np.concatenate(numbers)
    order = np.argsort(episode, kind="stable")
    rows = np.concatenate(logs)[order].astype(np.float32)
    return Rollout(
        join(observed).take(torch.from_numpy(order)),
        torch.from_numpy(np.concatenate(taken)[order]),
        torch.from_numpy(rows[:, None] if rows.ndim == 1 else rows),
        np.concatenate(rewards)[order],
        episode[order],
        runs.observe() if runs.active.any() else None,
        runs.active.copy(),
        environment_s,
    )


def joined(rollouts: Sequence[Rollout[Obs]], join: Callable[[Sequence[Obs]], Obs]) -> Rollout[Obs]:
    """Concatenate rollouts of whole episodes."""
    if len(rollouts) == 1:
        return rollouts[0]
    first = np.cumsum([0, *(len(one.truncated) for one in rollouts)])
    return Rollout(
        join([one.observations for one in rollouts]),
        torch.cat([one.actions for one in rollouts]),
        torch.cat([one.log_probabilities for one in rollouts]),
        np.concatenate([one.rewards for one in rollouts]),
        np.concatenate([one.episode + at for one, at in zip(rollouts, first[:-1], strict=True)]),
        None,
        np.concatenate([one.truncated for one in rollouts]),
        sum(one.environment_s for one in rollouts),
    )


def parts_of(count: int, together: int) -> list[Ints]:
    """Return the numbers of episodes in parts, one for each task of an executor.

    A network evaluates the episodes of a part in one batch, and the last digits of its outputs
    depend on the size of the batch. The parts therefore do not depend on the number of workers.

    Args:
        together: number of episodes of a part; the last part may have fewer.
    """
    return [np.arange(first, min(first + together, count)) for first in range(0, count, together)]
