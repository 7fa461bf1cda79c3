"""The vector environment of `hpcosim/JobNodePairing-v1`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.error import InvalidAction
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hpcosim_client.job import Bools, Floats, Ints
from hpcosim_compiled.policies import missing_package
from hpcosim_gym.environments.arguments import TOTALS
from hpcosim_gym.environments.vectors import (
    check_actions,
    check_autoreset,
    check_running,
    final_info,
    reset_mask,
    seeds_of,
    unless_numba_fails,
)
from hpcosim_papers.ineps.agent.site import Kind
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.environments.pairing_task import (
    Invalid,
    PairingTask,
    Reward,
    forbidden_message,
)
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_schedulers.agents.networks import Rows
from hpcosim_workloads.table import JobTable

if TYPE_CHECKING:
    from hpcosim_papers.ineps.environments.pairing_episodes import PairingEpisodes

LEAVE, BEGIN = -2, -1
"""Actions that leave an episode as it is, and that simulate it to its first choice."""


class JobNodePairingVectorEnv(gymnasium.vector.VectorEnv[Rows, Ints, Any]):
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
        autoreset_mode: `NEXT_STEP` or `DISABLED`.
        scenario, overrides, reward, reward_scale, baseline_costs, max_decisions, invalid, task,
            jobs, **settings: see `JobNodePairingEnv`.

    Raises:
        ScenarioError, WorkloadError, ValueError: see `JobNodePairingEnv`, or `num_envs` is below 1.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium declares it
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        scenario: str | Path | None = None,
        *,
        overrides: Mapping[str, Scalar] | None = None,
        reward: Reward | None = None,
        reward_scale: float = 1.0,
        baseline_costs: Mapping[Kind, float] | None = None,
        max_decisions: int | None = None,
        invalid: Invalid = "raise",
        task: PairingTask | None = None,
        jobs: JobTable | None = None,
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        **settings: Any,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs: expected an integer >= 1, got {num_envs}")
        first = JobNodePairingEnv(
            scenario,
            overrides=overrides,
            reward=reward,
            reward_scale=reward_scale,
            baseline_costs=baseline_costs,
            max_decisions=max_decisions,
            invalid=invalid,
            task=task,
            jobs=jobs,
            render_mode=render_mode,
            **settings,
        )
        self._runs = _compiled(first, num_envs) or _Singles(first, num_envs)
        self._invalid = invalid
        self.num_envs = num_envs
        self.single_observation_space = first.observation_space
        self.single_action_space = first.action_space
        self.observation_space = batch_space(first.observation_space, num_envs)
        self.action_space = batch_space(first.action_space, num_envs)
        self.autoreset_mode = check_autoreset(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": autoreset_mode}
        self._started = False

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Rows, dict[str, Any]]:
        """Start a new episode in every environment, or in those of `options["reset_mask"]`.

        Args:
            seed: seeds of the environments, or an integer s for s, s + 1, ...
            options: only `reset_mask`.

        Raises:
            PolicyError: see `JobNodePairingEnv.reset`.
        """
        seeds, chosen = seeds_of(seed, self.num_envs), reset_mask(options, self.num_envs)
        if not self._started:
            chosen[:] = True
        self._started = True
        return self._shown(self._runs.reset(seeds, chosen), has_taken=False)

    def step(self, actions: Ints) -> tuple[Rows, Floats, Bools, Bools, dict[str, Any]]:
        """Carry out an action in every environment and simulate to the next decisions.

        Args:
            actions: int64[num_envs].

        Raises:
            ResetNeeded: no episode has started, or one is over and not reset automatically.
            InvalidAction: there is not one action for each environment; see also
                `JobNodePairingEnv.step`.
            PolicyError: see `JobNodePairingEnv.step`.
        """
        check_actions(actions, self.num_envs, started=self._started)
        if self.autoreset_mode == AutoresetMode.DISABLED:
            check_running(self._runs.ended)
        steps = self._runs.step(actions)
        rows, info = self._shown(steps, has_taken=self._invalid == "first")
        return rows, steps.rewards, steps.over, steps.truncated, info

    def _shown(self, steps: _Steps, *, has_taken: bool) -> tuple[Rows, dict[str, Any]]:
        """Return the observation and the information of steps."""
        info: dict[str, Any] = {"action_mask": steps.mask}
        if has_taken:
            info["action_taken"] = steps.taken
        info |= final_info(steps.metrics, steps.over)
        return steps.rows, info


class _Steps(NamedTuple):
    """A step of all environments.

    Attributes:
        rows: float32[num_envs, actions, columns], the observations.
        mask: int8[num_envs, actions], the action masks.
        taken: int64[num_envs], actions; 0: it was reset.
        rewards: float64[num_envs].
        over: bool[num_envs], whether this step ended the episode.
        truncated: bool[num_envs], whether this step truncated it.
        metrics: the metrics of the episodes that are over, by environment.
    """

    rows: Rows
    mask: NDArray[np.int8]
    taken: Ints
    rewards: Floats
    over: Bools
    truncated: Bools
    metrics: dict[int, dict[str, float]]


_Step = tuple[Any, float, bool, bool, dict[str, Any]]
"""What a step of a single environment returns."""


class _Singles:
    """Single environments, one after the other."""

    def __init__(self, first: JobNodePairingEnv, count: int) -> None:
        self._envs = [first.another() for _ in range(count)]
        self.ended = np.ones(count, np.bool_)
        self._last: list[_Step] = []

    def reset(self, seeds: Sequence[int | None], chosen: Bools) -> _Steps:
        """See `JobNodePairingVectorEnv`."""
        return self._joined(
            [
                _begun(*env.reset(seed=seeds[place])) if chosen[place] else self._last[place]
                for place, env in enumerate(self._envs)
            ]
        )

    def step(self, actions: Ints) -> _Steps:
        """See `JobNodePairingVectorEnv`."""
        steps = [
            _begun(*env.reset()) if ended else env.step(action)
            for env, ended, action in zip(self._envs, self.ended, actions, strict=True)
        ]
        return self._joined(steps)

    def _joined(self, steps: list[_Step]) -> _Steps:
        self._last = steps
        rows, rewards, over, truncated, infos = zip(*steps, strict=True)
        ended = np.array(over)
        self.ended = ended | np.array(truncated)
        return _Steps(
            np.stack(rows),
            np.stack([info["action_mask"] for info in infos]),
            np.array([info.get("action_taken", 0) for info in infos]),
            np.array(rewards),
            ended,
            np.array(truncated),
            {
                at: {name: infos[at][name] for name in TOTALS}
                for at in np.flatnonzero(ended).tolist()
            },
        )


def _begun(rows: Rows, info: dict[str, Any]) -> _Step:
    """Return the step that was a reset."""
    return rows, 0.0, False, False, info


def compiled_episodes(task: PairingTask, workloads: Sequence[JobTable]) -> PairingEpisodes | None:
    """Return episodes on the compiled engine; None: it does not support them."""
    if missing_package():
        return None
    from hpcosim_papers.ineps.environments.pairing_episodes import PairingEpisodes, supports

    if not all(supports(task, jobs) for jobs in {id(jobs): jobs for jobs in workloads}.values()):
        return None
    return unless_numba_fails(lambda: PairingEpisodes(task, workloads))


def _compiled(first: JobNodePairingEnv, count: int) -> _Compiled | None:
    episodes = compiled_episodes(first.task, [first.workload] * count)
    return None if episodes is None else _Compiled(first, episodes, count)


class _Compiled:
    """All environments in one call of the compiled engine."""

    def __init__(self, first: JobNodePairingEnv, episodes: PairingEpisodes, count: int) -> None:
        self._first, self._episodes = first, episodes
        self._decisions = np.zeros(count, np.int64)
        self.ended = np.ones(count, np.bool_)
        baselines = [first.baseline_costs.get(kind, 0.0) for kind in episodes.kinds[0]]
        self._baselines = np.array([*baselines, 0.0])  # the last: no job was placed

    def reset(self, seeds: Sequence[int | None], chosen: Bools) -> _Steps:
        """See `JobNodePairingVectorEnv`; an episode draws no random numbers."""
        return self._played(np.where(chosen, BEGIN, LEAVE))

    def step(self, actions: Ints) -> _Steps:
        """See `JobNodePairingVectorEnv`."""
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

    def _played(self, actions: Ints) -> _Steps:
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
        return _Steps(
            episodes.rows.copy(),
            episodes.mask.copy(),
            np.maximum(actions, 0),
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
