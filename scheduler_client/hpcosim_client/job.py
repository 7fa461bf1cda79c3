"""A job as the scheduler knows it, and where it runs."""

from __future__ import annotations

import math
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


class Job:
    """A job that waits or runs.

    Attributes:
        job_id: its number.
        submit_s: when it was submitted.
        cores: cores it asks for.
        requested_s: run time its user asked for.
        placement, memory_mb, memory_volume_mb, max_energy_j, profile: see
            `hpcosim_protocol.JobSubmitted`; `max_energy_j` is infinity where any will do.
        order: jobs are numbered as they are heard of; breaks ties.
        start_s: when it started; NaN: it waits.
        place: where it runs.
    """

    __slots__ = (
        "cores",
        "job_id",
        "max_energy_j",
        "memory_mb",
        "memory_volume_mb",
        "order",
        "place",
        "placement",
        "profile",
        "requested_s",
        "start_s",
        "submit_s",
    )

    def __init__(
        self,
        job_id: int,
        submit_s: float,
        cores: int,
        requested_s: float,
        placement: Placement = "cores",
        order: int = 0,
        *,
        memory_mb: float = 0.0,
        memory_volume_mb: float = 0.0,
        max_energy_j: float | None = None,
        profile: str = "",
    ) -> None:
        self.job_id = job_id
        self.submit_s = submit_s
        self.cores = cores
        self.requested_s = requested_s
        self.placement = placement
        self.order = order
        self.memory_mb = memory_mb
        self.memory_volume_mb = memory_volume_mb
        self.max_energy_j = math.inf if max_energy_j is None else max_energy_j
        self.profile = profile
        self.start_s = math.nan
        self.place: Place | None = None

    def __repr__(self) -> str:
        return f"Job({self.job_id}, {self.cores} cores, {self.requested_s} s)"

    def expected_end_s(self, now_s: float) -> float:
        """Return when it should end by its request; one past that counts as ending now."""
        return max(self.start_s + self.requested_s, now_s)
