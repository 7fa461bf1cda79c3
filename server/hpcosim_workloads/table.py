"""A workload as columns: every job of a run, in submission order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol import Placement

PLACEMENTS: tuple[Placement, ...] = ("cores", "one_node", "whole_nodes")
ROWS_AT_A_TIME = 4096
LATEST_S = 1e15  # from here on float64 seconds are coarser than a tenth
MOST_CORES = 2**31 - 1


class JobSpec(NamedTuple):
    """One job as the workload has it; `run_s` and `ops` are known to the simulator alone.

    Attributes:
        ops: operations of each task; 0: the job runs `run_s`, wherever it does.
        max_energy_j: infinity: any.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTable:
    """Jobs in submission order, a column an attribute, all of one length.

    Attributes:
        job_id: int64, unique.
        submit_s: float64, seconds, never decreasing.
        run_s: float64, seconds; true run time (at the reference clock, where there is one). Of a
            job that has `ops`: their time at 10^9 a second.
        requested_s: float64, seconds; what the user asked for.
        cores: int64; cores asked for.
        placement: int8; how the job is laid over nodes, an index into `PLACEMENTS`.
        ops: float64; operations of each task; 0: `run_s` says how long it takes.
        memory_mb: float64, MB; memory asked for by each task.
        memory_volume_mb: float64, MB; data each task moves to and from memory in all.
        max_energy_j: float64, J; the most it may cost by estimate; infinity: any.
        profile: int32, an index into `profiles`.
        profiles: names of the kinds of jobs, the first for jobs of no kind.
        skipped: how many jobs of the source were left out or changed, by rule.
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
    profiles: tuple[str, ...] = ("",)
    skipped: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.job_id)

    def take(self, chosen: NDArray[Any] | slice) -> Self:
        """Return the table of the chosen rows, an index array, a mask or a slice."""
        return replace(self, **{name: getattr(self, name)[chosen] for name in COLUMNS})

    def at(self, submit_s: NDArray[np.float64]) -> Self:
        """Return the table with other submission times, float64, seconds, never decreasing."""
        return replace(self, submit_s=submit_s)

    def with_skipped(self, counts: Mapping[str, int]) -> Self:
        """Return the table with these counts added to `skipped`."""
        return replace(self, skipped=dict(Counter(self.skipped) + Counter(counts)))

    def rows(self) -> Iterator[JobSpec]:
        """Yield the jobs one by one as plain Python numbers, without unpacking all at once."""
        for start in range(0, len(self), ROWS_AT_A_TIME):
            part = slice(start, start + ROWS_AT_A_TIME)
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
    }
)


def job_table(
    *, profiles: tuple[str, ...] = ("",), skipped: Mapping[str, int] | None = None, **columns: Any
) -> JobTable:
    """Return a table of these columns, any sequences or one value for all; others have defaults.

    `job_id` must be a sequence: it says how many jobs there are.
    """
    count = len(columns["job_id"])
    filled = {
        name: np.array(np.broadcast_to(columns.pop(name, default), count), dtype=kind)
        for name, (kind, default) in COLUMNS.items()
    }
    assert not columns, f"no such columns: {list(columns)}"
    return JobTable(**filled, profiles=profiles, skipped=skipped or {})
