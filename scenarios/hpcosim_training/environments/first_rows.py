"""The rows at which jobs would start in plans, many at a time."""

from __future__ import annotations

import numpy as np

from hpcosim_client.agents.deep_eas.scene import NEVER, Counts


def first_rows(used: Counts, room: Counts, steps: Counts) -> Counts:
    """Return the first row from which there is room for all steps of a job, int16[..., jobs].

    It is `NEVER` where there is none.

    Args:
        used: cores taken, int16[..., rows].
        room: the most cores that may be taken beside each job, int16[..., jobs].
        steps: the steps of each job, int16[..., jobs].
    """
    rows = used.shape[-1]
    full = used[..., None, :] > room[..., None]
    until = np.zeros((*full.shape[:-1], rows + 1), dtype=np.int16)
    np.cumsum(full, axis=-1, dtype=np.int16, out=until[..., 1:])  # full rows before each
    ends = np.arange(rows) + steps[..., None]
    before_end = np.take_along_axis(until, np.minimum(ends, rows).astype(np.int64), axis=-1)
    fits = (ends <= rows) & (before_end == until[..., :-1])
    first = fits.argmax(axis=-1)
    found = np.take_along_axis(fits, first[..., None], axis=-1)[..., 0]
    return np.where(found, first, NEVER).astype(np.int16)


def blocks(first: Counts, steps: Counts, cores: Counts, rows: int) -> Counts:
    """Return the cores that jobs take in each row, int16[jobs, rows], each from its first row."""
    row = np.arange(rows)
    first, steps, cores = first[:, None], steps[:, None], cores[:, None]
    return np.where((row >= first) & (row < first + steps), cores, 0).astype(np.int16)
