"""What a pairing agent learns from: parts of a workload, drawn at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpcosim_workloads.table import JobTable

ALL_KINDS = 0.25  # how often all kinds stay


@dataclass(frozen=True, slots=True)
class Windows:
    """How parts are drawn.

    Attributes:
        jobs: how many jobs in a row; None: the whole workload, every time.
        kinds: three times in four only the jobs of some profiles are taken: how many is drawn,
            then which. They come when as many jobs of the workload do, so that it is as dense.
    """

    jobs: int | None = None
    kinds: bool = False

    def draw(self, rng: np.random.Generator, jobs: JobTable) -> JobTable:
        """Return a part of a workload, in submission order."""
        chosen = np.arange(len(jobs))
        if self.kinds and rng.random() >= ALL_KINDS:
            kinds = rng.permutation(np.unique(jobs.profile))
            some = kinds[: int(rng.integers(1, len(kinds) + 1))]
            chosen = np.flatnonzero(np.isin(jobs.profile, some))
        if self.jobs is not None and self.jobs < len(chosen):
            first = int(rng.integers(len(chosen) - self.jobs + 1))
            chosen = chosen[first : first + self.jobs]
        if len(chosen) == len(jobs):
            return jobs
        part = jobs.take(chosen)
        first = min(int(chosen[0]), len(jobs) - len(chosen))
        return part.at(jobs.submit_s[first : first + len(chosen)])
