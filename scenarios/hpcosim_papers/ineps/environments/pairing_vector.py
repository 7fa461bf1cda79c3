"""The vector environment of `hpcosim/JobNodePairing-v1`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.error import InvalidAction
from gymnasium.vector import AutoresetMode

from hpcosim_client.job import Bools, Ints
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
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.environments.pairing_task import PairingTask, forbidden_message
from hpcosim_schedulers.agents.networks import Rows
from hpcosim_workloads.table import JobTable

if TYPE_CHECKING:
    from hpcosim_papers.ineps.environments.pairing_episodes import PairingEpisodes


class JobNodePairingVectorEnv(HpcosimVectorEnv[Rows]):
    """Environments `hpcosim/JobNodePairing-v1` that are stepped together.

    It equals `gymnasium.make_vec(..., "sync")`, step by step. The workload is read once. An
    environment whose episode is over is reset by the next step, which ignores its action and has
    the reward 0 (`AutoresetMode.NEXT_STEP`). With `AutoresetMode.DISABLED`,
    `reset(options={"reset_mask": over})` resets the environments of a mask, bool[num_envs].

    Where Numba is installed (`pip install 'hpcosim[fast]'`), the compiled engine steps all
    environments in one call; the more environments, the faster. Its first use on a machine compiles
    it, which takes about two minutes. What the compiled engine does not support, such as jobs with
    `max_energy_j`, the reference engine simulates, with the same results.

    The information has `action_mask`, int8[num_envs, S x N + 1]; `action_taken`, int64[num_envs],
    with `invalid="first"` (0 after a reset); and the metrics of the environments that `_energy_j`
    marks.

    Args:
        num_envs: number of environments, >= 1.
        scenario: see `JobNodePairingEnv`.
        autoreset_mode: `NEXT_STEP` or `DISABLED`.
        **arguments: the other arguments of `JobNodePairingEnv`.

    Raises:
        ScenarioError, WorkloadError, ValueError: see `JobNodePairingEnv`, or `num_envs` is below 1.
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
        first = JobNodePairingEnv(scenario, **arguments)
        runs = _compiled(first, num_envs) or Singles(
            [first.another() for _ in range(num_envs)], TOTALS, tells=first.invalid == "first"
        )
        super().__init__(first, runs, num_envs, autoreset_mode)


def compiled_episodes(task: PairingTask, workloads: Sequence[JobTable]) -> PairingEpisodes | None:
    """Return episodes on the compiled engine; None: it does not support them."""

    def make() -> PairingEpisodes | None:
        from hpcosim_papers.ineps.environments.pairing_episodes import PairingEpisodes, supports

        different = {id(jobs): jobs for jobs in workloads}.values()
        are_supported = all(supports(task, jobs) for jobs in different)
        return PairingEpisodes(task, workloads) if are_supported else None

    return unless_numba_fails(make)


def _compiled(first: JobNodePairingEnv, count: int) -> _Compiled | None:
    episodes = compiled_episodes(first.task, [first.workload] * count)
    return None if episodes is None else _Compiled(first, episodes, count)


class _Compiled:
    """All environments in one call of the compiled engine; see `Runs`."""

    def __init__(self, first: JobNodePairingEnv, episodes: PairingEpisodes, count: int) -> None:
        self._first, self._episodes = first, episodes
        self._decisions = np.zeros(count, np.int64)
        self.ended = np.ones(count, np.bool_)
        baselines = [first.baseline_costs.get(kind, 0.0) for kind in episodes.kinds[0]]
        self._baselines = np.array([*baselines, 0.0])  # the last: no job was placed

    def reset(self, seeds: Sequence[int | None], options: Options, chosen: Bools) -> Steps:
        """See `Runs`; an episode draws no random numbers."""
        return self._played(np.where(chosen, BEGIN, LEAVE))

    def step(self, actions: Ints) -> Steps:
        """See `Runs`."""
        allowed = self._allowed(actions)
        return self._played(np.where(self.ended, BEGIN, allowed))

    def _allowed(self, actions: Ints) -> Ints:
        """Return the actions to carry out, 0 where an episode begins.

        Raises:
            InvalidAction: an action does not exist, or it is masked and `invalid` is `raise`.
        """
        mask = self._episodes.mask
        given = np.where(self.ended, 0, actions)
        if given.dtype.kind not in "iu" or not ((given >= 0) & (given < mask.shape[1])).all():
            last = mask.shape[1] - 1
            raise InvalidAction(f"action: expected integers from 0 to {last}, got {actions}")
        wrong = (mask[np.arange(len(given)), given] == 0) & ~self.ended
        if wrong.any():
            if self._first.invalid == "raise":
                place = int(wrong.argmax())
                raise InvalidAction(self._forbidden(place, int(given[place])))
            given = np.where(wrong, mask.argmax(axis=1), given)
        return given.astype(np.int64, copy=False)

    def _forbidden(self, place: int, action: int) -> str:
        task, mask = self._first.task, self._episodes.mask[place]
        rows = self._episodes.visible(place)
        job_ids = self._first.workload.job_id[rows].tolist()
        allowed, nodes = np.flatnonzero(mask).tolist(), task.platform.node_count
        what = forbidden_message(allowed, job_ids, nodes, len(mask), action)
        return f"environment {place}: {what}"

    def _played(self, actions: Ints) -> Steps:
        begun, left = actions == BEGIN, actions == LEAVE
        episodes = self._episodes
        if begun.any():
            episodes.begin(np.flatnonzero(begun))
        episodes.play(actions)
        gains = episodes.gains + self._baselines[episodes.placed]
        rewards = np.where(begun, 0.0, gains / self._first.reward_scale)
        self._decisions = np.where(begun, 0, self._decisions + ~left)
        over = episodes.over & ~left
        truncated = ~over & ~begun & (self._decisions == (self._first.max_decisions or -1))
        self.ended = np.where(left, self.ended, over | truncated)
        return Steps(
            episodes.rows.copy(),
            episodes.mask.copy(),
            np.maximum(actions, 0) if self._first.invalid == "first" else None,
            rewards,
            over,
            truncated,
            self._metrics(np.flatnonzero(over)),
        )

    def _metrics(self, places: Ints) -> dict[int, dict[str, float]]:
        if not len(places):
            return {}
        episodes = self._episodes
        energies_j, makespans_s = episodes.energies_j(), episodes.now_s - episodes.start_s
        return {
            place: {
                "energy_j": float(energies_j[place]),
                "edp_js": float(energies_j[place] * makespans_s[place]),
                "makespan_s": float(makespans_s[place]),
            }
            for place in places.tolist()
        }
