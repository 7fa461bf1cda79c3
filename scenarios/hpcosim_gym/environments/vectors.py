"""The base of the vector environments: episodes on either engine, resets, checks, information."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, SupportsFloat, TypeVar

import gymnasium
import numpy as np
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hpcosim_client.job import Bools, Floats, Ints
from hpcosim_compiled.policies import missing_package

Episodes = TypeVar("Episodes")
Observation = TypeVar("Observation")

Options = dict[str, Any] | None
Env = gymnasium.Env[Any, Any]


class Steps(NamedTuple):
    """A step of all environments; the first axis of each array is that of the environments.

    Attributes:
        seen: the observations.
        mask: int8, the action masks.
        taken: int64[num_envs], the actions that were taken, 0: it was reset; None: as given.
        rewards: float64[num_envs].
        over: bool[num_envs], whether this step ended the episode.
        truncated: bool[num_envs], whether this step truncated it.
        metrics: the metrics of the episodes that are over, by environment.
    """

    seen: Any
    mask: NDArray[np.int8]
    taken: Ints | None
    rewards: Floats
    over: Bools
    truncated: Bools
    metrics: Mapping[int, Mapping[str, float]]


class Runs(Protocol):
    """The environments of a vector, on one of the engines."""

    @property
    def ended(self) -> Bools:
        """Which episodes have ended or not begun, bool[num_envs]."""

    def reset(self, seeds: Sequence[int | None], options: Options, chosen: Bools) -> Steps:
        """Begin episodes, bool[num_envs]; the others are left as they are."""

    def step(self, actions: Any) -> Steps:
        """Carry out actions in the episodes; begin those that have ended."""


class HpcosimVectorEnv(gymnasium.vector.VectorEnv[Observation, Any, Any]):
    """Environments that are stepped together.

    It equals `gymnasium.make_vec(..., "sync")`, step by step. The workload is read once. An
    environment whose episode is over is reset by the next step, which ignores its action and has
    the reward 0 (`AutoresetMode.NEXT_STEP`). With `AutoresetMode.DISABLED`,
    `reset(options={"reset_mask": over})` resets the environments of a mask, bool[num_envs].

    Args:
        first: one of the environments.
        runs: the environments.
        num_envs: their number.
        autoreset_mode: `NEXT_STEP` or `DISABLED`.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium declares it
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(self, first: Env, runs: Runs, num_envs: int, autoreset_mode: AutoresetMode):
        self.num_envs = num_envs
        self.single_observation_space = first.observation_space
        self.single_action_space = first.action_space
        self.observation_space = batch_space(first.observation_space, num_envs)
        self.action_space = batch_space(first.action_space, num_envs)
        self.autoreset_mode = autoreset_mode
        self.metadata = {**self.metadata, "autoreset_mode": autoreset_mode}
        self._runs = runs
        self._started = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Options = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a new episode in every environment, or in those of `options["reset_mask"]`.

        Args:
            seed: seeds of the environments, or an integer s for s, s + 1, ...
            options: `reset_mask`, and options of the single environment.

        Raises:
            ValueError: an option is invalid, or there is another number of seeds.
            PolicyError: see the single environment.
        """
        seeds, chosen = _seeds_of(seed, self.num_envs), _reset_mask(options, self.num_envs)
        if not self._started:
            chosen[:] = True
        self._started = True
        steps = self._runs.reset(seeds, options, chosen)
        return self.observation_of(steps.seen), _info(steps)

    def step(self, actions: Any) -> tuple[Observation, Floats, Bools, Bools, dict[str, Any]]:
        """Carry out an action in every environment and simulate to the next decisions.

        Args:
            actions: one action for each environment, in an array.

        Raises:
            ResetNeeded: no episode has started, or one is over and not reset automatically.
            InvalidAction: there is not one action for each environment, or see the single one.
            PolicyError: see the single environment.
        """
        if not self._started:
            raise ResetNeeded("no episode has started; call reset() before step()")
        if len(actions) != self.num_envs:
            expected = f"{self.num_envs} {self._action_kind}"
            raise InvalidAction(f"action: expected {expected}, got {len(actions)}")
        if self.autoreset_mode == AutoresetMode.DISABLED and (ended := self._runs.ended).any():
            raise ResetNeeded(
                f"the episodes of the environments {np.flatnonzero(ended).tolist()} are over; call "
                "reset() with the option reset_mask"
            )
        steps = self._runs.step(actions)
        info = _info(steps) | _final_info(steps.metrics, steps.over)
        return self.observation_of(steps.seen), steps.rewards, steps.over, steps.truncated, info

    def observation_of(self, seen: Any) -> Observation:
        """Return observations in the form in which the environment shows them."""
        found: Observation = seen
        return found

    _action_kind = "integers"


_Step = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]
"""What a step of a single environment returns."""


class Singles:
    """Single environments, one after the other.

    Args:
        envs: the environments.
        metrics: names of the information about episodes that are over.
        tells: whether the information has `action_taken`.

    Attributes:
        ended: see `Runs`.
    """

    def __init__(self, envs: Sequence[Env], metrics: Sequence[str], *, tells: bool) -> None:
        self._envs, self._metrics, self._tells = envs, metrics, tells
        self._last: list[_Step] = []
        self.ended = np.ones(len(envs), np.bool_)

    def reset(self, seeds: Sequence[int | None], options: Options, chosen: Bools) -> Steps:
        """See `Runs`."""
        return self._joined(
            [
                _begun(*env.reset(seed=seeds[place], options=options))
                if chosen[place]
                else self._last[place]
                for place, env in enumerate(self._envs)
            ]
        )

    def step(self, actions: Any) -> Steps:
        """See `Runs`."""
        return self._joined(
            [
                _begun(*env.reset()) if ended else env.step(action)
                for env, ended, action in zip(self._envs, self.ended, actions, strict=True)
            ]
        )

    def _joined(self, steps: list[_Step]) -> Steps:
        self._last = steps
        seen, rewards, over, truncated, infos = zip(*steps, strict=True)
        found = Steps(
            np.stack(seen),
            np.stack([info["action_mask"] for info in infos]),
            np.array([info.get("action_taken", 0) for info in infos]) if self._tells else None,
            np.array(rewards),
            np.array(over),
            np.array(truncated),
            {
                place: {name: infos[place][name] for name in self._metrics}
                for place in np.flatnonzero(over).tolist()
            },
        )
        self.ended = found.over | found.truncated
        return found


def _begun(seen: Any, info: dict[str, Any]) -> _Step:
    """Return the step that was a reset."""
    return seen, 0.0, False, False, info


def unless_numba_fails(make: Callable[[], Episodes | None]) -> Episodes | None:
    """Return compiled episodes; None: without Numba; with a warning, if it fails on the machine.

    Args:
        make: makes the episodes; None: the compiled engine does not support them.
    """
    if missing_package():
        return None
    try:
        return make()
    except Exception as error:  # whatever Numba raises
        warnings.warn(
            f"the reference engine steps the environments, because Numba failed: {error!r:.300}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def check_vector(num_envs: int, mode: AutoresetMode) -> None:
    """Check the arguments that a single environment does not have.

    Raises:
        ValueError: there are no environments, or no such mode.
    """
    if num_envs < 1:
        raise ValueError(f"num_envs: expected an integer >= 1, got {num_envs}")
    known = (AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED)
    if mode not in known:
        names = " or ".join(str(each) for each in known)
        raise ValueError(f"autoreset_mode: expected {names}, got {mode!r}")


def _seeds_of(seed: int | Sequence[int | None] | None, count: int) -> Sequence[int | None]:
    """Return the seed of each environment; see `HpcosimVectorEnv.reset`."""
    if isinstance(seed, int):
        return range(seed, seed + count)
    seeds = [None] * count if seed is None else seed
    if len(seeds) != count:
        raise ValueError(f"seed: expected {count} seeds, got {len(seeds)}")
    return seeds


def _reset_mask(options: Options, count: int) -> Bools:
    """Return which environments are reset; see `HpcosimVectorEnv.reset`."""
    mask = None if options is None else options.get("reset_mask")
    chosen = np.array(np.ones(count, np.bool_) if mask is None else mask)
    if chosen.shape != (count,) or chosen.dtype != np.bool_:
        raise ValueError(f"options['reset_mask']: expected {count} booleans, got {mask!r}")
    return chosen


def _info(steps: Steps) -> dict[str, Any]:
    taken = {} if steps.taken is None else {"action_taken": steps.taken}
    return {"action_mask": steps.mask, **taken}


def _final_info(metrics: Mapping[int, Mapping[str, float]], over: Bools) -> dict[str, Any]:
    """Return the metrics of episodes that are over, as Gymnasium shows them for a vector."""
    info: dict[str, Any] = {}
    for name in next(iter(metrics.values()), {}):
        info[name] = np.zeros(len(over))
        info[name][list(metrics)] = [each[name] for each in metrics.values()]
        info[f"_{name}"] = over
    return info
