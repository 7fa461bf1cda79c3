"""Energy-aware shortest job first, for many runs at a time."""

from __future__ import annotations

import numpy as np

from hpcosim_client.agents.deep_eas.scene import NEVER, Scene
from hpcosim_client.job import Ints


def esjf_actions(scene: Scene) -> Ints:
    """Return the action of `hpcosim_client.heuristics.esjf.least` in each moment, int64[moments].

    Where nothing fits, it is to hold. Sums and products are in the same order as there, so that
    the same values are equal in both.
    """
    moments, machines, queue = scene.rows.shape
    steps, rows = scene.steps.astype(np.float64), scene.rows.astype(np.float64)
    least = np.maximum(steps.min(axis=1, keepdims=True), 1.0)
    energy = scene.cores[:, None].astype(np.float64) * scene.watts[:, None] * steps / least
    values = energy * (scene.waited[:, None] + rows + steps) / least
    values[scene.rows == NEVER] = np.inf
    by_slot = values.swapaxes(1, 2).reshape(moments, -1)  # of equals the first job's
    slot, machine = np.divmod(by_slot.argmin(axis=1), machines)
    hold = machines * queue
    actions: Ints = np.where(np.isfinite(by_slot.min(axis=1)), machine * queue + slot, hold)
    return actions
