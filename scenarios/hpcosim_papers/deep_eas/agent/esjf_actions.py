"""Energy-aware shortest job first (ESJF) on arrays, for many runs in one call."""

from __future__ import annotations

import numpy as np

from hpcosim_client.job import Ints
from hpcosim_papers.deep_eas.agent.scene import NEVER, Scene


def esjf_actions(scene: Scene) -> Ints:
    """Return the action of `hpcosim_schedulers.heuristics.esjf.least` for each run, int64[runs].

    The action is to hold where no job fits. Sums and products have the same order as in `least`, so
    that ties are equal in both implementations.
    """
    runs, machines, queue = scene.rows.shape
    steps, rows = scene.steps.astype(np.float64), scene.rows.astype(np.float64)
    least = np.maximum(steps.min(axis=1, keepdims=True), 1.0)
    energy = scene.cores[:, None].astype(np.float64) * scene.watts[:, None] * steps / least
    values = energy * (scene.waited[:, None] + rows + steps) / least
    values[scene.rows == NEVER] = np.inf
    by_slot = values.swapaxes(1, 2).reshape(runs, -1)  # argmin breaks ties by the earliest job
    slot, machine = np.divmod(by_slot.argmin(axis=1), machines)
    hold = machines * queue
    actions: Ints = np.where(np.isfinite(by_slot.min(axis=1)), machine * queue + slot, hold)
    return actions
