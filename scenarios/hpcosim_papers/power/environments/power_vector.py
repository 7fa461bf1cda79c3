"""The vector environment of `hpcosim/NodePower-v1`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.error import InvalidAction
from gymnasium.vector import AutoresetMode

from hpcosim_client.job import Bools, Floats, Ints
from hpcosim_compiled.state import BEGIN, LEAVE
from hpcosim_gym.environments.arguments import TOTALS
from hpcosim_gym.environments.vectors import (
    HpcosimVectorEnv,
    Options,
    Singles,
    Steps,
    check_vector,
    unless_numba_fails,
)
from hpcosim_papers.power.environments.node_power import NodePowerEnv
from hpcosim_papers.power.environments.power_task import DECIDES, Interval, Reward
from hpcosim_schedulers.power.account import EnergyAccount
from hpcosim_schedulers.power.features import FEATURES, Observation, calendar

if TYPE_CHECKING:
    from hpcosim_papers.power.environments.power_episodes import PowerEpisodes


class NodePowerVectorEnv(HpcosimVectorEnv[Observation]):
    """Environments `hpcosim/NodePower-v1` that are stepped together.

    It equals `gymnasium.make_vec(..., "sync")`, step by step. The workload is read once. An
    environment whose episode is over is reset by the next step, which ignores its action and has
    the reward 0 (`AutoresetMode.NEXT_STEP`). With `AutoresetMode.DISABLED`,
    `reset(options={"reset_mask": over})` resets the environments of a mask, bool[num_envs].

    Where Numba is installed (`pip install 'hpcosim[fast]'`), the compiled engine steps all
    environments in one call; the more environments, the faster. Its first use on a machine compiles
    it, which takes about two minutes. What the compiled engine does not support, such as random
    times of switching, the reference engine simulates, with the same results.

    The information has `action_mask`, int8[num_envs, nodes, 2], and the metrics of the environments
    that `_energy_j` marks.

    Args:
        num_envs: number of environments, >= 1.
        scenario: see `NodePowerEnv`.
        autoreset_mode: `NEXT_STEP` or `DISABLED`.
        **arguments: the other arguments of `NodePowerEnv`.

    Raises:
        ScenarioError, WorkloadError, PolicyError, ValueError: see `NodePowerEnv`, or `num_envs` is
            below 1.
    """

    def __init__(
        self,
        num_envs: int = 1,
        scenario: str | Path | None = None,
        *,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        **arguments: Any,
    ) -> None:
        check_vector(num_envs, autoreset_mode)
        first = NodePowerEnv(scenario, **arguments)
        runs = _compiled(first, num_envs) or Singles(
            [NodePowerEnv(task=first.task, jobs=first.workload) for _ in range(num_envs)],
            TOTALS,
            tells=False,
        )
        super().__init__(first, runs, num_envs, autoreset_mode)


def _compiled(first: NodePowerEnv, count: int) -> _Compiled | None:
    def make() -> PowerEpisodes | None:
        from hpcosim_papers.power.environments.power_episodes import PowerEpisodes, supports

        task, jobs = first.task, first.workload
        return PowerEpisodes(task, jobs, count) if supports(task, jobs) else None

    episodes = unless_numba_fails(make)
    return None if episodes is None else _Compiled(first, episodes, count)


class _Compiled:
    """All environments in one call of the compiled engine; see `Runs`."""

    def __init__(self, first: NodePowerEnv, episodes: PowerEpisodes, count: int) -> None:
        self._task, self._episodes = first.task, episodes
        self._on_w = EnergyAccount(first.task.platform).on_w.sum()
        self._wasted_j, self._waited_s = np.zeros(count), np.zeros(count)
        self.ended = np.ones(count, np.bool_)

    def reset(self, seeds: Sequence[int | None], options: Options, chosen: Bools) -> Steps:
        """See `Runs`; an episode draws no random numbers."""
        return self._played(np.where(chosen, BEGIN, LEAVE))

    def step(self, actions: Any) -> Steps:
        """See `Runs`.

        Raises:
            InvalidAction: the actions of an environment are not 0 and 1, one for each node.
        """
        switches = self._episodes.switches
        given = np.asarray(actions)
        if given.shape != switches.shape or given.dtype.kind not in "biuf":
            raise InvalidAction(f"action: expected {switches.shape} values 0 or 1, got {given!r}")
        if not ((given == 0) | (given == 1) | self.ended[:, None]).all():
            raise InvalidAction(f"action: expected only values 0 or 1, got {given!r}")
        switches[:] = given
        return self._played(np.where(self.ended, BEGIN, DECIDES))

    def _played(self, actions: Ints) -> Steps:
        begun, episodes = actions == BEGIN, self._episodes
        for place in np.flatnonzero(begun).tolist():
            episodes.begin(place)
        episodes.play(actions)
        rewards = np.where(begun, 0.0, self._rewards())
        self.ended = over = episodes.over
        if self._task.origin_s is not None:
            for place in np.flatnonzero(actions != LEAVE).tolist():
                week_s = self._task.origin_s + episodes.now_s(place)
                episodes.rows[place, :, FEATURES:] = calendar(week_s)
        return Steps(
            episodes.rows.copy(),
            episodes.mask.copy(),
            None,
            rewards,
            over,
            np.zeros_like(over),
            {place: episodes.metrics(place) for place in np.flatnonzero(over).tolist()},
        )

    def _rewards(self) -> Floats:
        """Return the reward since the last decision of each environment; see `Reward`."""
        each, length_s = self._episodes.episodes, self._task.interval_s
        wasted = (each.wasted_j - self._wasted_j) / (self._on_w * length_s)
        waited_s = each.waited_s - self._waited_s
        self._wasted_j, self._waited_s = each.wasted_j.copy(), each.waited_s.copy()
        columns = zip(wasted.tolist(), waited_s.tolist(), each.waited.tolist(), strict=True)
        reward: Reward = self._task.reward
        return np.array([reward.of(Interval(*column, length_s)) for column in columns])
