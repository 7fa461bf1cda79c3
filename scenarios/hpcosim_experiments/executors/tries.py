"""The tasks that wait for a worker, and the number of tries of each."""

from __future__ import annotations

from collections import Counter, deque

MAX_TRIES = 3
"""Number of workers that may be lost with a task before the task is given up."""


class WaitingTasks:
    """The positions of the tasks that wait for a worker.

    Tasks of lost workers follow all others: memory that ran out may be free by then.

    Args:
        count: number of tasks.
    """

    def __init__(self, count: int) -> None:
        self._new = iter(range(count))
        self._again: deque[int] = deque()
        self._lost: Counter[int] = Counter()

    def take(self) -> int | None:
        """Remove and return the position of the next task; None: no task waits."""
        if (index := next(self._new, None)) is not None:
            return index
        return self._again.popleft() if self._again else None

    def put_back(self, index: int) -> None:
        """Put a task back that is not to blame for the loss of its worker."""
        self._again.append(index)

    def run_again(self, index: int) -> bool:
        """Put a task back whose worker was lost; return False if that was its last try."""
        self._lost[index] += 1
        if self._lost[index] >= MAX_TRIES:
            return False
        self._again.append(index)
        return True
