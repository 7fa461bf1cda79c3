"""The binary picture that Deep-EAS observes; a row is a step (paper, section II-B, figure 2).

Its parts, from left to right:

- the occupancy of each machine: in the row of a step, one column per occupied core is 1;
- the job of each slot on each machine: one row per expected step and one column per core are 1; all
  0 for an empty slot;
- the number of waiting jobs behind the slots, and the steps since the last submission: as many
  elements are 1, in columns of `horizon` elements.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcosim_papers.deep_eas.agent.scene import Counts, Scene
from hpcosim_papers.deep_eas.agent.settings import DeepEas

Picture = NDArray[np.bool_]


def pictures(settings: DeepEas, scene: Scene) -> Picture:
    """Return the picture of each moment, bool[moments, horizon, width]."""
    column = np.arange(settings.cores)
    rows = np.arange(settings.horizon)[:, None, None, None]
    plans = column < scene.used.swapaxes(1, 2)[..., None]
    # moments, horizon, queue, machines, cores
    jobs = (rows < scene.steps.swapaxes(1, 2)[:, None, :, :, None]) & (
        column < scene.cores[:, None, :, None, None]
    )
    parts = [part.reshape(scene.moments, settings.horizon, -1) for part in (plans, jobs)]
    parts.append(_line(scene.behind, settings.backlog, settings.horizon))
    parts.append(_line(scene.since_arrival, settings.since_arrival, settings.horizon))
    return np.concatenate(parts, axis=2)


def _line(counts: Counts, most: int, horizon: int) -> Picture:
    line = np.arange(most) < counts[:, None]
    return line.reshape(len(counts), -1, horizon).swapaxes(1, 2)
