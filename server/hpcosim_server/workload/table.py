"""A workload as columns: every job of a run, in submission order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol import Placement

PLACEMENTS: tuple[Placement, ...] = ("cores", "one_node", "whole_nodes")
ROWS_AT_A_TIME = 4096
LATEST_S = 1e15  # from here on float64 seconds are coarser than a tenth
MOST_CORES = 2**31 - 1


class JobSpec(NamedTuple):
    """One job as the workload has it; `run_s` is known to the simulator alone."""

    job_id: int
    submit_s: float
    run_s: float
    requested_s: float
    cores: int
    placement: Placement


@dataclass(frozen=True, slots=True)
class JobTable:
    """Jobs in submission order, a column an attribute, all of one length.

    Attributes:
        job_id: int64, unique.
        submit_s: float64, seconds, never decreasing.
        run_s: float64, seconds; true run time (at the reference clock, where there is one).
        requested_s: float64, seconds; what the user asked for.
        cores: int64; cores asked for.
        placement: int8; how the job is laid over nodes, an index into `PLACEMENTS`.
        skipped: how many jobs of the source were left out or changed, by rule.
    """

    job_id: NDArray[np.int64]
    submit_s: NDArray[np.float64]
    run_s: NDArray[np.float64]
    requested_s: NDArray[np.float64]
    cores: NDArray[np.int64]
    placement: NDArray[np.int8]
    skipped: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.job_id)

    def take(self, chosen: NDArray[Any] | slice) -> Self:
        """Return the table of the chosen rows, an index array, a mask or a slice."""
        return replace(
            self,
            job_id=self.job_id[chosen],
            submit_s=self.submit_s[chosen],
            run_s=self.run_s[chosen],
            requested_s=self.requested_s[chosen],
            cores=self.cores[chosen],
            placement=self.placement[chosen],
        )

    def with_skipped(self, counts: Mapping[str, int]) -> Self:
        """Return the table with these counts added to `skipped`."""
        return replace(self, skipped=dict(Counter(self.skipped) + Counter(counts)))

    def rows(self) -> Iterator[JobSpec]:
        """Yield the jobs one by one as plain Python numbers, without unpacking all at once."""
        columns = (self.job_id, self.submit_s, self.run_s, self.requested_s, self.cores)
        for start in range(0, len(self), ROWS_AT_A_TIME):
            part = slice(start, start + ROWS_AT_A_TIME)
            placement = [PLACEMENTS[code] for code in self.placement[part].tolist()]
            yield from map(JobSpec, *(column[part].tolist() for column in columns), placement)
