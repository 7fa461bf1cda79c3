"""What Deep-EAS sees: a binary picture, a row a step (paper, section II-B, figure 2).

From left to right

- for each machine its occupancy: in the row of a step, as many columns are 1 as cores are taken;
- for each of the `queue` slots and each machine the job there: as many rows as it is expected to
  take steps, as many columns as it takes cores; zeros for a slot without a job;
- how many jobs wait behind those of the slots, and how many steps ago the last job came, each a
  row of ones as long as that, cut into columns of `horizon`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.agents.deep_eas.scene import Counts, Scene
from hpcosim_client.agents.deep_eas.settings import DeepEas

Picture = NDArray[np.bool_]


def pictures(settings: DeepEas, scene: Scene) -> Picture:
    """Return a picture for each moment of a scene, bool[moments, horizon, width]."""
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
