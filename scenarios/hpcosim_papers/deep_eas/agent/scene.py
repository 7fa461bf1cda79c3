"""The observation of Deep-EAS: the plan of each machine and the jobs in the slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Floats

Counts = NDArray[np.int16]

WINDOWS = (4, 16, 64)
"""Steps in which recent submissions are counted."""

NEVER = -1  # the row of a job that does not fit, and of an empty slot


class Scene(NamedTuple):
    """Observations at one or several moments; times are in steps from the moment on.

    Attributes:
        watts: float64[machines], power of a busy core, in W.
        used: int16[moments, machines, horizon], occupied cores in each row of the plans.
        cores: int16[moments, queue], cores of the job in each slot; 0: empty.
        waited: int16[moments, queue], waiting time of the job.
        steps: int16[moments, machines, queue], expected run time of the job.
        rows: int16[moments, machines, queue], row in which the job would start; `NEVER`: it does
            not fit within the horizon.
        behind: int16[moments], number of waiting jobs behind those in slots.
        since_arrival: int16[moments], time since the last submission.
        ahead: int32[moments, queue], work of the waiting jobs with a shorter expected run time than
            the job in a slot, or the same and an earlier submission: cores x steps on the fastest
            machine.
        work: int32[moments], work of all waiting jobs.
        recent: int16[moments, 3], jobs submitted in the last steps, for each of `WINDOWS`.
    """

    watts: Floats
    used: Counts
    cores: Counts
    waited: Counts
    steps: Counts
    rows: Counts
    behind: Counts
    since_arrival: Counts
    ahead: NDArray[np.int32]
    work: NDArray[np.int32]
    recent: Counts

    @property
    def moments(self) -> int:
        """The number of moments."""
        return len(self.used)

    def some(self, which: NDArray[np.integer]) -> Scene:
        """Return the observations at some of the moments."""
        return Scene(self.watts, *(part[which] for part in self[1:]))

    def possible(self) -> NDArray[np.bool_]:
        """Return the valid actions, bool[moments, actions]; the last, to hold, always is."""
        fits = (self.rows != NEVER).reshape(self.moments, -1)
        return np.concatenate([fits, np.ones((self.moments, 1), dtype=np.bool_)], axis=1)


def joined(scenes: Sequence[Scene]) -> Scene:
    """Concatenate the moments of observations of the same machines."""
    parts = (np.concatenate(part) for part in zip(*(scene[1:] for scene in scenes), strict=True))
    return Scene(scenes[0].watts, *parts)
