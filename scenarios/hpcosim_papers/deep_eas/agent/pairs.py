"""Features of every pair of a machine and a slot, for `sees: pairs` and `sees: queue`.

They do not depend on the number, speeds and powers of machines. Quantities with a wide range are
logarithms.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcosim_papers.deep_eas.agent.scene import NEVER, WINDOWS, Scene
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas

Features = NDArray[np.float32]

SOON = (1, 2, 4, 8, 16)  # numbers of rows with an occupancy feature, beside the horizon
OF_PAIR = 16 + len(SOON) + 1
OF_QUEUE = 3
IN_QUEUE = 4  # additional features of a pair with `sees: queue`
OF_WHOLE_QUEUE = 4 + len(WINDOWS)
LEAST_W = 1e-9  # lower bound of the power of a machine in features


def feature_counts(settings: DeepEas) -> tuple[int, int]:
    """Return the numbers of features of a pair and of the queue."""
    whole = settings.sees == "queue"
    return (OF_PAIR + IN_QUEUE, OF_WHOLE_QUEUE) if whole else (OF_PAIR, OF_QUEUE)


def pairs(settings: DeepEas, scene: Scene) -> Features:
    """Return the features, float32[moments, machines x queue, features]; 0 for empty slots.

    The weight of a job is its energy divided by the square of its least expected run time. The
    weight times the time from submission to end is the normalised energy-delay product (paper,
    section II-A).
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
    if settings.sees == "queue":
        parts += _in_queue(settings, scene, least, waited)
    features = np.empty((*steps.shape, len(parts)), dtype=np.float32)
    for column, part in enumerate(parts):
        features[..., column] = part
    features *= there[..., None]
    return features.reshape(scene.moments, -1, len(parts))


def queues(settings: DeepEas, scene: Scene) -> Features:
    """Return the features of the queue, float32[moments, features]."""
    since_arrival = np.minimum(scene.since_arrival / settings.since_arrival, 1.0)
    filled = (scene.cores > 0).mean(axis=1)
    if settings.sees == "pairs":
        parts = [scene.behind / (2 * settings.queue), since_arrival, filled]
        return np.stack(parts, axis=1).astype(np.float32)
    parts = [
        np.log1p(scene.behind) / 5,
        since_arrival,
        filled,
        np.log1p(scene.work / settings.cores) / 5,
        *(scene.recent / np.array(WINDOWS)).T,
    ]
    return np.stack(parts, axis=1).astype(np.float32)


def _in_queue(
    settings: DeepEas, scene: Scene, least: Features, waited: Features
) -> list[NDArray[np.floating]]:
    """Return features of the jobs beside the whole queue, each [moments, 1, slots or 1]."""
    ahead, work = scene.ahead[:, None], scene.work[:, None, None]
    return [
        np.log1p(ahead / settings.cores) / 5,
        np.log1p(work / settings.cores) / 5,
        ahead / np.maximum(work, 1),
        np.log1p(waited / least) / 3,
    ]


def _occupancy(settings: DeepEas, scene: Scene) -> list[NDArray[np.floating]]:
    """Return the occupancy of each number of rows, each [moments, machines, 1]."""
    taken = np.cumsum(scene.used, axis=2, dtype=np.float32) / settings.cores
    ends = [min(rows, settings.horizon) for rows in (*SOON, settings.horizon)]
    return [taken[:, :, end - 1, None] / end for end in ends]
