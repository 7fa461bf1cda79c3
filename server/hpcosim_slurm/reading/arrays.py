"""Tasks of job arrays: Slurm shows those that wait as one job with a list of tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from hpcosim_slurm.errors import ReadingError

MAX_WAITING_TASKS = 1000
"""Number of waiting tasks of an array that are told apart; later ones follow as these start."""
_TASK_SHIFT = 32  # Slurm's numbers of jobs have at most 32 bits
_PART = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?(?::(\d{1,10}))?")


def task_id(array: int, task: int) -> int:
    """Return the number of an array's task in this package.

    Slurm gives a task a number of its own when it starts, so this one is made of the number of the
    array and that of the task. It stays the same from submission to end.

    Args:
        array: Slurm's number of the array.
        task: number of the task.
    """
    return (task + 1 << _TASK_SHIFT) + array


def tasks_of(text: str) -> list[int]:
    """Return the first `MAX_WAITING_TASKS` tasks of a list such as `1-5,9-17:2%3`, in its order.

    Raises:
        ReadingError: the text has another form.
    """
    listed = text.partition("%")[0]
    return list(islice(_tasks(listed), MAX_WAITING_TASKS))


def limit_of(text: str) -> int:
    """Return how many tasks of a list such as `1-5%2` may run at once; 0: no limit.

    Raises:
        ReadingError: the text has another form.
    """
    limit = text.partition("%")[2]
    if not re.fullmatch(r"\d{0,9}", limit):
        raise ReadingError(f"expected a number of tasks after %, got {limit[:80]!r}")
    return int(limit or 0)


def _tasks(listed: str) -> Iterator[int]:
    for part in listed.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise ReadingError(f"expected tasks of an array such as 1-5,9, got {listed[:80]!r}")
        first, last, step = found.groups()
        yield from range(int(first), int(last or first) + 1, max(int(step or 1), 1))
