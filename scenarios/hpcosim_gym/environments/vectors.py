"""What the vector environments share: seeds, and which environments are reset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from hpcosim_client.job import Bools


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
