"""Job arrays whose number of tasks that may run at once is limited."""

from __future__ import annotations

from bisect import bisect_left, insort

from hpcosim_sim.engine.jobs import SimulatedJob


class LimitedArray:
    """The tasks of an array that are not over.

    The first `limit` tasks by index are admitted. A task keeps its place until it is over, also
    while it waits again after a requeue.

    Args:
        limit: maximum number of admitted tasks; 0: no limit.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._tasks: list[tuple[int, int, SimulatedJob]] = []  # index in the array, row, job

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, job: SimulatedJob) -> tuple[bool, SimulatedJob | None]:
        """Add a task; return whether it is admitted, and the task that no longer is."""
        key = _key(job)
        place = bisect_left(self._tasks, key)
        insort(self._tasks, (*key, job), key=lambda task: task[:2])
        if not self.limit:
            return True, None
        dropped = len(self._tasks) > self.limit and place < self.limit
        return place < self.limit, self._tasks[self.limit][2] if dropped else None

    def remove(self, job: SimulatedJob) -> SimulatedJob | None:
        """Remove a task that is over; return the task that is admitted in its place."""
        place = bisect_left(self._tasks, _key(job))
        del self._tasks[place]
        if self.limit and place < self.limit <= len(self._tasks):
            return self._tasks[self.limit - 1][2]
        return None

    def set_limit(self, limit: int) -> tuple[list[SimulatedJob], list[SimulatedJob]]:
        """Change the limit; return the tasks admitted by it and those no longer admitted."""
        before = self.limit or len(self._tasks)
        after = limit or len(self._tasks)
        self.limit = limit
        jobs = [job for _, _, job in self._tasks]
        return jobs[before:after], jobs[after:before]


def _key(job: SimulatedJob) -> tuple[int, int]:
    request = job.spec.request
    return (0 if request is None else request.array_index, job.row)
