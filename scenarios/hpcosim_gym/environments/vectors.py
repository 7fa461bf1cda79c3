"""What the vector environments share: seeds, checks, information, and the compiled engine."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.vector import AutoresetMode

from hpcosim_client.job import Bools, Ints

Episodes = TypeVar("Episodes")


def check_autoreset(mode: AutoresetMode) -> AutoresetMode:
    """Return how a vector environment resets environments whose episodes are over.

    Raises:
        ValueError: it has no such mode.
    """
    known = (AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED)
    if mode not in known:
        names = " or ".join(str(each) for each in known)
        raise ValueError(f"autoreset_mode: expected {names}, got {mode!r}")
    return mode


def seeds_of(seed: int | Sequence[int | None] | None, count: int) -> Sequence[int | None]:
    """Return the seed of each environment.

    Args:
        seed: the seeds, or an integer s for s, s + 1, ...; None: no seeds.

    Raises:
        ValueError: there is another number of seeds.
    """
    if isinstance(seed, int):
        return range(seed, seed + count)
    seeds = [None] * count if seed is None else seed
    if len(seeds) != count:
        raise ValueError(f"seed: expected {count} seeds, got {len(seeds)}")
    return seeds


def reset_mask(options: Mapping[str, Any] | None, count: int) -> Bools:
    """Return which environments are reset, bool[count]; without the option `reset_mask` all.

    Raises:
        ValueError: the option is no such array.
    """
    mask = None if options is None else options.get("reset_mask")
    chosen = np.array(np.ones(count, np.bool_) if mask is None else mask)
    if chosen.shape != (count,) or chosen.dtype != np.bool_:
        raise ValueError(f"options['reset_mask']: expected {count} booleans, got {mask!r}")
    return chosen


def check_actions(actions: Ints, count: int, *, started: bool) -> None:
    """Check that an episode has started, and that there is an action for each environment.

    Raises:
        ResetNeeded: no episode has started.
        InvalidAction: there is another number of actions.
    """
    if not started:
        raise ResetNeeded("no episode has started; call reset() before step()")
    if len(actions) != count:
        raise InvalidAction(f"action: expected {count} integers, got {len(actions)}")


def final_info(metrics: Mapping[int, Mapping[str, float]], over: Bools) -> dict[str, Any]:
    """Return the information about episodes that are over.

    Args:
        metrics: their metrics, by environment.
        over: bool[num_envs], the episodes that are over.
    """
    info: dict[str, Any] = {}
    for name in next(iter(metrics.values()), {}):
        info[name] = np.zeros(len(over))
        info[name][list(metrics)] = [each[name] for each in metrics.values()]
        info[f"_{name}"] = over
    return info


def unless_numba_fails(make: Callable[[], Episodes]) -> Episodes | None:
    """Return compiled episodes; None, with a warning: Numba does not support the machine."""
    try:
        return make()
    except Exception as error:  # whatever Numba raises
        warnings.warn(
            f"the reference engine steps the environments, because Numba failed: {error!r:.300}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def check_running(ended: Bools) -> None:
    """Check that no environment needs a reset.

    Raises:
        ResetNeeded: an episode is over, and the environment does not reset it.
    """
    if ended.any():
        places = np.flatnonzero(ended).tolist()
        raise ResetNeeded(
            f"the episodes of the environments {places} are over; call reset() with the option "
            "reset_mask"
        )
