"""Machines and job sequences as arrays, with times in whole steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Ints

Counts = NDArray[np.int16]
Sees = Literal["picture", "pairs", "queue"]
Few = Annotated[int, Meta(ge=1, le=1000)]
Rows = Annotated[int, Meta(ge=3, le=1000)]  # as many as a filter of the network has


class DeepEas(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An action is a pair of a waiting job and a machine, or to hold. The defaults are the paper's.

    Attributes:
        machines: number of nodes, 1 to 1000.
        cores: cores of each node, 1 to 1000.
        horizon: H, number of steps that are observed and planned, 3 to 1000.
        queue: Q, number of slots for waiting jobs, 1 to 1000.
        backlog: B, upper bound of the observed number of waiting jobs behind the slots; a multiple
            of `horizon`.
        since_arrival: L, upper bound of the observed steps since the last submission; a multiple of
            `horizon`.
        step_s: duration of a step, simulated seconds, > 0.
        masked: whether invalid actions are excluded. The paper's agent may take one, which ends the
            step.
        sees: `picture`: the binary picture of the paper; `pairs`: features of each pair of a
            machine and a job, for any number of machines; `queue`: the same with figures of the
            whole queue. Slots hold the first waiting jobs; with `queue`, two thirds of them hold
            the jobs with the shortest expected run time, the others the last submitted of the rest.
    """

    machines: Few = 2
    cores: Few = 10
    horizon: Rows = 30
    queue: Few = 10
    backlog: Few = 90
    since_arrival: Few = 30
    step_s: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    masked: bool = False
    sees: Sees = "picture"

    def __post_init__(self) -> None:
        for name, value in (("backlog", self.backlog), ("since_arrival", self.since_arrival)):
            if value % self.horizon:
                raise ValueError(
                    f"{name}: expected a multiple of the horizon, {self.horizon}, got {value}"
                )

    @property
    def newest(self) -> int:
        """Number of slots for the last submitted jobs."""
        return self.queue // 3 if self.sees == "queue" else 0

    @property
    def width(self) -> int:
        """Number of columns of the picture."""
        counts = (self.backlog + self.since_arrival) // self.horizon
        return self.machines * self.cores * (1 + self.queue) + counts

    @property
    def actions(self) -> int:
        """Number of actions: machine x queue + slot; the last one is to hold."""
        return self.machines * self.queue + 1


AFTER_ALL = np.iinfo(np.int32).max


class Machines(NamedTuple):
    """The machines, without the workload.

    Attributes:
        watts: float64[machines], dynamic power of a busy core, W.
        scale: float64[machines], factor of requested and run times on each machine.
    """

    settings: DeepEas
    watts: Floats
    scale: Floats


class StepJobs(NamedTuple):
    """The jobs of several runs, in submission order within each run.

    Attributes:
        valid: bool[runs, jobs]; False: padding after the last job of a run.
        submit: int64[runs, jobs], step of submission.
        cores: int16[runs, jobs], requested cores.
        expected: int16[runs, machines, jobs], expected run time, steps.
        actual: int16[runs, machines, jobs], actual run time, steps.
    """

    valid: NDArray[np.bool_]
    submit: Ints
    cores: Counts
    expected: Counts
    actual: Counts

    def take(self, which: Sequence[int] | Ints) -> StepJobs:
        """Return the selected runs; an index may occur several times."""
        return StepJobs(*(part[np.asarray(which)] for part in self))
