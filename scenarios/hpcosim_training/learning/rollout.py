"""Rollouts: decisions in environments that run side by side, and what came of them."""

from __future__ import annotations

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
    """What an actor observes in several decisions."""

    def take(self, rows: Tensor) -> Self:
        """Return some of the decisions."""


Obs = TypeVar("Obs", bound=Observations)
E = TypeVar("E", bound=gymnasium.Env[Any, Any])
Obs_co = TypeVar("Obs_co", bound=Observations, covariant=True)

Act = Callable[[Obs, Ints], Ints]
"""Takes the observations of the runs that are active, and their numbers; returns an action each."""

Sample = Callable[[Obs, Ints], tuple[Ints, Logs]]
"""An `Act` that draws; it also returns the log-probabilities, float[decisions] or [D, parts]."""


class Runs(Protocol[Obs_co]):
    """Episodes that run side by side, each to its own end.

    Attributes:
        active: bool[runs], which are not over.
    """

    active: NDArray[np.bool_]

    def observe(self) -> Obs_co:
        """Return what the active runs observe."""

    def step(self, actions: Ints) -> Floats:
        """Carry out an action in each active run; return their rewards, float64[active]."""


def gymnasium_step(env: gymnasium.Env[Any, Any], action: Any) -> tuple[float, bool]:
    """Take a step of an environment; return the reward, and whether the episode is over."""
    _, reward, terminated, truncated, _ = env.step(action)
    return float(reward), terminated or truncated


class SideBySide(Generic[E, Obs]):
    """Gymnasium environments as `Runs`; all are reset.

    Args:
        envs: the environments.
        observe: returns what some of them observe.
        step: takes a step of an environment; returns the reward, and whether it is over.
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
        """See `Runs`."""
        return self._observe([self._envs[run] for run in np.flatnonzero(self.active).tolist()])

    def step(self, actions: Ints) -> Floats:
        """See `Runs`."""
        runs = np.flatnonzero(self.active).tolist()
        rewards = np.zeros(len(runs))
        for at, (run, action) in enumerate(zip(runs, actions, strict=True)):
            rewards[at], over = self._step(self._envs[run], action)
            self.active[run] = not over
        return rewards


@dataclass(frozen=True, slots=True)
class Rollout(Generic[Obs]):
    """Decisions and their rewards; those of a run lie one behind the other, in order of time.

    Attributes:
        observations: of the D decisions.
        actions: int64[D], or int64[D, parts].
        log_probabilities: float32[D, parts], of the actions when they were drawn.
        rewards: float64[D].
        episode: int64[D], the number of the run, of E.
        final: observations of the runs that were not over after their last decision; None: none.
        truncated: bool[E], which runs these are.
    """

    observations: Obs
    actions: Tensor
    log_probabilities: Tensor
    rewards: Floats
    episode: Ints
    final: Obs | None
    truncated: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.rewards)


def play(runs: Runs[Obs], act: Act[Obs]) -> None:
    """Run all to their end."""
    while runs.active.any():
        runs.step(act(runs.observe(), np.flatnonzero(runs.active)))


def collect(
    runs: Runs[Obs],
    sample: Sample[Obs],
    join: Callable[[Sequence[Obs]], Obs],
    steps: int | None = None,
) -> Rollout[Obs]:
    """Run all to their end, or some decisions on, and return what was decided.

    Args:
        runs: the runs; one at least is active.
        sample: draws actions.
        join: returns the observations of several instants as one.
        steps: decisions of each run at most; None: to the end.
    """
    numbers, observed, taken, logs = [], [], [], []
    rewards: list[Floats] = []
    while runs.active.any() and (steps is None or len(rewards) < steps):
        active = np.flatnonzero(runs.active)
        observations = runs.observe()
        actions, log_probabilities = sample(observations, active)
        numbers.append(active)
        observed.append(observations)
        taken.append(actions)
        logs.append(log_probabilities)
        rewards.append(runs.step(actions))
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
    )


def joined(rollouts: Sequence[Rollout[Obs]], join: Callable[[Sequence[Obs]], Obs]) -> Rollout[Obs]:
    """Return rollouts of whole episodes as one, in their order."""
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
    )
