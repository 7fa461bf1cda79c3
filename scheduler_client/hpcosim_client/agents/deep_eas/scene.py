"""What Deep-EAS is told when it is asked: the plan of each machine, and the jobs in its slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Floats

Counts = NDArray[np.int16]

NEVER = -1  # the row of a job that does not fit, and of a slot without one


class Scene(NamedTuple):
    """What is told in some moments, one or many; times are in steps, from the moment on.

    Attributes:
        watts: of a busy core of each machine, float64[machines].
        used: cores taken in each row of the plans, int16[moments, machines, horizon].
        cores: of the job in each slot, int16[moments, queue]; 0: there is none.
        waited: how long it has, int16[moments, queue].
        steps: that it is expected to take, int16[moments, machines, queue].
        rows: where it would start, int16[moments, machines, queue]; `NEVER`: not within the
            horizon.
        behind: jobs that wait behind those in slots, int16[moments].
        since_arrival: steps since the last job came, int16[moments].
    """

    watts: Floats
    used: Counts
    cores: Counts
    waited: Counts
    steps: Counts
    rows: Counts
    behind: Counts
    since_arrival: Counts

    @property
    def moments(self) -> int:
        """How many there are."""
        return len(self.used)

    def some(self, which: NDArray[np.integer]) -> Scene:
        """Return some of the moments."""
        return Scene(self.watts, *(part[which] for part in self[1:]))

    def possible(self) -> NDArray[np.bool_]:
        """Return which actions are, bool[moments, actions]; the last, to hold, always is."""
        fits = (self.rows != NEVER).reshape(self.moments, -1)
        return np.concatenate([fits, np.ones((self.moments, 1), dtype=np.bool_)], axis=1)


def joined(scenes: Sequence[Scene]) -> Scene:
    """Return all moments of scenes of the same machines, in their order."""
    parts = (np.concatenate(part) for part in zip(*(scene[1:] for scene in scenes), strict=True))
    return Scene(scenes[0].watts, *parts)
