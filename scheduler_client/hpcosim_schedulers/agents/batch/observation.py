"""Observations of a fixed size, as learners of other libraries expect them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hpcosim_schedulers.agents.batch.scene import CLUSTER_COLUMNS, JOB_COLUMNS, QueueScene, Rows

Form = Literal["dict", "flat"]

CLUSTER, VISIBLE = "cluster", "visible"

SLOT_COLUMNS = (VISIBLE, *JOB_COLUMNS)
"""Columns of a slot: 1 if a job is visible there, then those of the job; 0 without a job."""


def flat_size(window_jobs: int) -> int:
    """Return the number of values of a flat observation."""
    return len(CLUSTER_COLUMNS) + len(SLOT_COLUMNS) * window_jobs


def flat(scene: QueueScene | None, window_jobs: int) -> Rows:
    """Return an observation as one array: the cluster, then each column for all slots.

    Args:
        scene: the observation; None: all values are 0, after the last round.
        window_jobs: number of slots, at least that of the visible jobs.

    Returns:
        float32[CLUSTER_COLUMNS + SLOT_COLUMNS x window_jobs].
    """
    values = np.zeros(flat_size(window_jobs), dtype=np.float32)
    if scene is not None:
        first = len(CLUSTER_COLUMNS)
        values[:first] = scene.cluster
        slots = values[first:].reshape(len(SLOT_COLUMNS), window_jobs)
        visible = scene.columns.shape[1]
        slots[0, :visible] = 1.0
        slots[1:, :visible] = scene.columns
    return values


def by_name(scene: QueueScene | None, window_jobs: int) -> dict[str, Rows]:
    """Return an observation as arrays by name: `cluster`, and each of SLOT_COLUMNS.

    For the arguments see `flat`.
    """
    values, first = flat(scene, window_jobs), len(CLUSTER_COLUMNS)
    slots = values[first:].reshape(len(SLOT_COLUMNS), window_jobs)
    return {CLUSTER: values[:first], **dict(zip(SLOT_COLUMNS, slots, strict=True))}


def mask_of(jobs: int, window_jobs: int) -> NDArray[np.int8]:
    """Return the action mask, int8[window_jobs]: 1 for the slots of visible jobs."""
    mask = np.zeros(window_jobs, dtype=np.int8)
    mask[:jobs] = 1
    return mask
