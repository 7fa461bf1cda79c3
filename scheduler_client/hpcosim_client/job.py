"""A job as the scheduler knows it, and where it runs."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol import Placement

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Place(NamedTuple):
    """Where a job may run.

    Attributes:
        nodes: node numbers.
        tasks: how many of the job's tasks on each.
        held: how many cores it takes of each; more than its tasks where nodes are taken whole.
        cores: the sum of `held`.
    """

    nodes: Ints
    tasks: Ints
    held: Ints
    cores: int


@dataclass(slots=True, eq=False, repr=False)
class Job:
    """A job that waits or runs.

    Attributes:
        job_id: its number.
        submit_s: simulated second of its submission.
        cores: cores it asks for.
        requested_s: run time that its user asked for, s.
        placement, memory_mb, memory_volume_mb, profile: see `hpcosim_protocol.JobSubmitted`.
        order: number of jobs heard of before it; breaks ties.
        max_energy_j: the most it may cost by estimate, J; infinity: any.
        start_s: when it started, or will once its nodes are on; NaN: it waits.
        place: where it runs; None: it waits.
    """

    job_id: int
    submit_s: float
    cores: int
    requested_s: float
    placement: Placement = "cores"
    order: int = 0
    _: KW_ONLY
    memory_mb: float = 0.0
    memory_volume_mb: float = 0.0
    max_energy_j: float = math.inf
    profile: str = ""
    start_s: float = math.nan
    place: Place | None = None

    def __repr__(self) -> str:
        return f"Job({self.job_id}, {self.cores} cores, {self.requested_s} s)"

    def expected_end_s(self, now_s: float) -> float:
        """Return when it should end by its request; one past that counts as ending now."""
        return max(self.start_s + self.requested_s, now_s)
