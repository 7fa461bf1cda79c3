"""The queue of waiting jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from hpcosim_client.job import Job


class JobQueue(dict[int, Job]):
    """Waiting jobs by number, in submission order.

    Every iteration is over a copy, so a policy may start jobs while it iterates:

        for job in view.queue.values():
            view.start(job)

    Args:
        jobs: pairs of a number and its job.
    """

    def __init__(self, jobs: Iterable[tuple[int, Job]] = ()) -> None:
        super().__init__(jobs)
        # A dictionary finds its first key in the time of all keys that were removed before it.
        # The numbers in the order of the queue; those of jobs that left are removed at either end.
        self._numbers = deque(super().keys())

    def __setitem__(self, number: int, job: Job) -> None:
        numbers = self._numbers
        while numbers and numbers[-1] not in self:
            numbers.pop()
        if number not in self:
            numbers.append(number)
        super().__setitem__(number, job)

    def first(self) -> Job:
        """Return the job at the head of the queue, without a copy.

        Raises:
            StopIteration: the queue is empty.
        """
        numbers = self._numbers
        while numbers:
            if numbers[0] in self:
                return self[numbers[0]]
            numbers.popleft()
        return next(iter(super().values()))

    def first_jobs(self, count: int) -> list[Job]:
        """Return the first jobs, at most `count`, without a copy of the queue."""
        return list(islice(super().values(), count))

    def values(self) -> list[Job]:  # type: ignore[override]  # a copy instead of a view
        """Return the jobs that wait now."""
        return list(super().values())

    def items(self) -> list[tuple[int, Job]]:  # type: ignore[override]
        """Return the numbers and the jobs that wait now."""
        return list(super().items())

    def keys(self) -> list[int]:  # type: ignore[override]
        """Return the numbers of the jobs that wait now."""
        return list(super().__iter__())

    def __iter__(self) -> Iterator[int]:
        return iter(list(super().__iter__()))

    def __reduce__(self) -> tuple[Any, ...]:  # copies and pickles set the items first otherwise
        return JobQueue, (self.items(),)
