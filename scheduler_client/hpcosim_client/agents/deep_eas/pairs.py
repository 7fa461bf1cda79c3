"""What the agent that weighs pairs sees: of each machine and slot, what binding the job would mean.

The numbers say the same of any number of machines, of any speeds and powers. Sizes that may be
large or small are there as logarithms.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.agents.deep_eas.scene import NEVER, Scene
from hpcosim_client.agents.deep_eas.settings import DeepEas

Features = NDArray[np.float32]

SOON = (1, 2, 4, 8, 16)  # rows from now on whose occupancy is told, beside the whole horizon's
OF_PAIR = 16 + len(SOON) + 1
OF_QUEUE = 3
LEAST_W = 1e-9  # a machine that takes nothing is told as if it took that


def pairs(settings: DeepEas, scene: Scene) -> Features:
    """Return float32[moments, machines x queue, OF_PAIR], all 0 where there is no job.

    What a second of a job costs is its weight, the energy it takes over the square of its least
    expected run time (paper, section II-A): that times its time from submission to end is its
    normalised energy-delay product.
    """
    there = (scene.cores > 0)[:, None, :]
    cores = np.maximum(scene.cores, 1)[:, None, :].astype(np.float32)
    steps = np.maximum(scene.steps, 1).astype(np.float32)
    least = steps.min(axis=1, keepdims=True)
    waited = scene.waited[:, None, :].astype(np.float32)
    rows = np.maximum(scene.rows, 0).astype(np.float32)
    watts = np.maximum(scene.watts, LEAST_W)
    dearer = (watts / watts.min())[:, None].astype(np.float32)
    weight = cores * dearer * steps / least**2
    parts = [
        1.0,
        scene.rows != NEVER,
        rows / settings.horizon,
        np.log1p(rows) / 3,
        steps / settings.horizon,
        np.log(steps) / 3,
        least / settings.horizon,
        np.log(least) / 3,
        np.log(steps / least),
        cores / settings.cores,
        np.log1p(waited) / 5,
        np.log(weight) / 3,
        np.log(weight * (waited + rows + steps)) / 5,
        np.log(weight * (rows + steps)) / 5,
        np.log(cores * dearer * steps) / 5,
        np.log(dearer) / 3,
        *_occupancy(settings, scene),
    ]
    told = np.empty((*steps.shape, OF_PAIR), dtype=np.float32)
    for column, part in enumerate(parts):
        told[..., column] = part
    told *= there[..., None]
    return told.reshape(scene.moments, -1, OF_PAIR)


def queues(settings: DeepEas, scene: Scene) -> Features:
    """Return what is told of all that waits, float32[moments, OF_QUEUE]."""
    parts = [
        scene.behind / (2 * settings.queue),
        np.minimum(scene.since_arrival / settings.since_arrival, 1.0),
        (scene.cores > 0).mean(axis=1),
    ]
    return np.stack(parts, axis=1).astype(np.float32)


def _occupancy(settings: DeepEas, scene: Scene) -> list[NDArray[np.floating]]:
    """Return for each number of rows the share of cores taken in them, [moments, machines, 1]."""
    taken = np.cumsum(scene.used, axis=2, dtype=np.float32) / settings.cores
    ends = [min(rows, settings.horizon) for rows in (*SOON, settings.horizon)]
    return [taken[:, :, end - 1, None] / end for end in ends]
