"""`JobTable`: the jobs of a workload, one NumPy array per column, in submission order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol import Placement
from hpcosim_workloads.applied_rules import AppliedRules

PLACEMENTS: tuple[Placement, ...] = ("cores", "one_node", "whole_nodes")
BLOCK_ROWS = 4096
MAX_TIME_S = 1e15  # above, the resolution of float64 is coarser than 0.1 s
MAX_CORES = 2**31 - 1


class JobSpec(NamedTuple):
    """One job of a workload. Only the simulator knows `run_s` and `ops`.

    Attributes: as in `JobTable`, except that `placement` and `profile` are names.
    """

    job_id: int
    submit_s: float
    run_s: float
    requested_s: float
    cores: int
    placement: Placement
    ops: float = 0.0
    memory_mb: float = 0.0
    memory_volume_mb: float = 0.0
    max_energy_j: float = math.inf
    profile: str = ""
    user: int = -1
    group: int = -1
    partition: int = -1
    deadline_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTable:
    """Jobs in submission order, one attribute per column, all columns of the same length.

    Attributes:
        job_id: int64, unique.
        submit_s: float64, submission time, s; never decreases.
        run_s: float64, true run time, s; at the reference clock if the scenario has one. Of a job
            with `ops`: its run time at 10^9 operations per second.
        requested_s: float64, requested run time, s.
        cores: int64, requested cores.
        placement: int8, rule for the layout over nodes: an index into `PLACEMENTS`.
        ops: float64, operations of each task; 0: `run_s` states the run time.
        memory_mb: float64, requested memory per task, MB; 0: unknown.
        memory_volume_mb: float64, data that each task transfers to and from memory, MB.
        max_energy_j: float64, upper limit of the job's estimated energy, J; infinity: no limit.
        profile: int32, an index into `profiles`.
        user: int64, number of the user who submitted the job; -1: unknown.
        group: int64, number of the user's group; -1: unknown.
        partition: int64, number of the partition of the machine that the job was submitted to; -1:
            unknown. It has no effect on the simulation.
        deadline_s: float64, time by which the job should have ended, s, on the clock of `submit_s`;
            infinity: none.
        profiles: names of the job profiles; the first is "" for jobs without a profile.
        rules: the jobs of the source that reading and shaping dropped or changed.
    """

    job_id: NDArray[np.int64]
    submit_s: NDArray[np.float64]
    run_s: NDArray[np.float64]
    requested_s: NDArray[np.float64]
    cores: NDArray[np.int64]
    placement: NDArray[np.int8]
    ops: NDArray[np.float64]
    memory_mb: NDArray[np.float64]
    memory_volume_mb: NDArray[np.float64]
    max_energy_j: NDArray[np.float64]
    profile: NDArray[np.int32]
    user: NDArray[np.int64]
    group: NDArray[np.int64]
    partition: NDArray[np.int64]
    deadline_s: NDArray[np.float64]
    profiles: tuple[str, ...] = ("",)
    rules: AppliedRules = field(default_factory=AppliedRules)

    @property
    def skipped(self) -> dict[str, int]:
        """Number of jobs that were dropped or changed, by rule."""
        return self.rules.counts()

    def __len__(self) -> int:
        return len(self.job_id)

    def take(self, chosen: NDArray[Any] | slice) -> Self:
        """Return the table of the chosen rows: an index array, a mask or a slice.

        `skipped` keeps the counts of the whole table. See `shaping` for windows that count their
        own jobs.
        """
        columns = {name: getattr(self, name)[chosen] for name in COLUMNS}
        return replace(self, **columns, rules=self.rules.unplaced())

    def at(self, submit_s: NDArray[np.float64]) -> Self:
        """Return the table with other submission times, float64, s, never decreasing.

        Each deadline moves with its job: the time from submission to deadline stays the same.
        """
        deadline_s = self.deadline_s + (submit_s - self.submit_s)
        return replace(self, submit_s=submit_s, deadline_s=deadline_s)

    def rows(self) -> Iterator[JobSpec]:
        """Yield the jobs as plain Python numbers, converted block by block to save memory."""
        for start in range(0, len(self), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            columns = {name: getattr(self, name)[part].tolist() for name in COLUMNS}
            columns["placement"] = [PLACEMENTS[code] for code in columns["placement"]]
            columns["profile"] = [self.profiles[code] for code in columns["profile"]]
            yield from map(JobSpec, *(columns[name] for name in JobSpec._fields))


# Type and default of each column.
COLUMNS: Mapping[str, tuple[type[np.generic], float]] = MappingProxyType(
    {
        "job_id": (np.int64, 0),
        "submit_s": (np.float64, 0.0),
        "run_s": (np.float64, 0.0),
        "requested_s": (np.float64, 0.0),
        "cores": (np.int64, 1),
        "placement": (np.int8, 0),
        "ops": (np.float64, 0.0),
        "memory_mb": (np.float64, 0.0),
        "memory_volume_mb": (np.float64, 0.0),
        "max_energy_j": (np.float64, math.inf),
        "profile": (np.int32, 0),
        "user": (np.int64, -1),
        "group": (np.int64, -1),
        "partition": (np.int64, -1),
        "deadline_s": (np.float64, math.inf),
    }
)


def job_table(
    *, profiles: tuple[str, ...] = ("",), rules: AppliedRules | None = None, **columns: Any
) -> JobTable:
    """Return a table of these columns.

    Args:
        profiles: names of the job profiles.
        rules: the jobs that the reader dropped or changed; default: none.
        **columns: a sequence, or one value for all jobs; a missing column has its default from
            `COLUMNS`. `job_id` must be a sequence: its length is the number of jobs.
    """
    count = len(columns["job_id"])
    filled = {
        name: np.array(np.broadcast_to(columns.pop(name, default), count), dtype=kind)
        for name, (kind, default) in COLUMNS.items()
    }
    assert not columns, f"no such columns: {list(columns)}"
    return JobTable(**filled, profiles=profiles, rules=rules or AppliedRules())
