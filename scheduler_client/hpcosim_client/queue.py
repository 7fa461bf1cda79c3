"""The queue of waiting jobs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from hpcosim_client.job import Job


class JobQueue(OrderedDict[int, Job]):
    """Waiting jobs by number, in submission order.

    Every iteration is over a copy, so a policy may start jobs while it iterates:

        for job in view.queue.values():
            view.start(job)
    """

    def first(self) -> Job:
        """Return the job at the head of the queue, without a copy.

        Raises:
            StopIteration: the queue is empty.
        """
        return next(iter(super().values()))

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
