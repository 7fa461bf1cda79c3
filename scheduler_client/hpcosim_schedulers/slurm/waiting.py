"""The priorities of waiting jobs as arrays, so that all are calculated at once."""

from __future__ import annotations

import numpy as np

from hpcosim_client.job import Floats, Ints, Job
from hpcosim_schedulers.slurm.factors import HIGHEST

FIRST_SIZE = 64

RankedJob = tuple[int, int, int, Job]
"""-tier, -priority, number of a job, and the job."""


class WaitingTable:
    """What the priority of each waiting job depends on. Numbers of slots are reused.

    Attributes:
        slots: slot of each job, by number of the job.
        constant: float64[slots], sum of the factors that do not change.
        since_s: float64[slots], when the job began to age, simulated seconds.
        association: int64[slots], number of the association; -1: none.
        fixed: float64[slots], priority that an administrator set; NaN: none.
        tier: int64[slots], PriorityTier of the job's partition.
        value: float64[slots], priority before it is rounded.
    """

    def __init__(self) -> None:
        self.slots: dict[int, int] = {}
        self._free: list[int] = []
        self.constant: Floats = np.zeros(0)
        self.since_s: Floats = np.zeros(0)
        self.association: Ints = np.zeros(0, dtype=np.int64)
        self.fixed: Floats = np.zeros(0)
        self.tier: Ints = np.zeros(0, dtype=np.int64)
        self.value: Floats = np.zeros(0)

    def slot(self, job_id: int) -> int:
        """Return the slot of a job, a new one if it has none."""
        if job_id not in self.slots:
            if not self._free:
                self._grow()
            self.slots[job_id] = self._free.pop()
            self.value[self.slots[job_id]] = 0.0
        return self.slots[job_id]

    def remove(self, job_id: int) -> None:
        """Free the slot of a job, if it has one."""
        slot = self.slots.pop(job_id, None)
        if slot is not None:
            self._free.append(slot)

    def calculate(
        self, slots: Ints | slice, ages: Floats, shares: Floats, *, only_up: bool
    ) -> None:
        """Calculate priorities.

        Args:
            slots: the slots.
            ages: weighted age factor of each of them.
            shares: weighted fair-share factor of each of them.
            only_up: whether priorities never fall (priority flag `incr_only`).
        """
        value = np.clip(self.constant[slots] + ages + shares, 1.0, HIGHEST)
        if only_up:
            value = np.maximum(value, self.value[slots])
        fixed = self.fixed[slots]
        self.value[slots] = np.where(np.isnan(fixed), value, fixed)

    def rank(self, job_id: int) -> tuple[int, int, int]:
        """Return -tier, -priority and number of a job: the key of the order of the queue."""
        slot = self.slots[job_id]
        return (-int(self.tier[slot]), -int(self.value[slot]), job_id)

    def sorted(self, jobs: list[Job]) -> list[RankedJob]:
        """Return waiting jobs with their ranks in ascending order."""
        slots = np.array([self.slots[job.job_id] for job in jobs], dtype=np.int64)
        tier, value = -self.tier[slots], -self.value[slots].astype(np.int64)
        number = np.array([job.job_id for job in jobs], dtype=np.int64)
        order = np.lexsort((number, value, tier))
        columns = (each[order].tolist() for each in (tier, value, number))
        return list(zip(*columns, [jobs[each] for each in order.tolist()], strict=True))

    def _grow(self) -> None:
        size = len(self.value)
        more = max(size, FIRST_SIZE)
        self._free.extend(reversed(range(size, size + more)))
        self.constant = np.append(self.constant, np.zeros(more))
        self.since_s = np.append(self.since_s, np.zeros(more))
        self.association = np.append(self.association, np.full(more, -1))
        self.fixed = np.append(self.fixed, np.full(more, np.nan))
        self.tier = np.append(self.tier, np.zeros(more, dtype=np.int64))
        self.value = np.append(self.value, np.zeros(more))
