"""What all executors have in common."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Generic, Literal, NamedTuple, Protocol, TypeVar

from msgspec import Meta, Struct

from hpcosim_experiments.errors import ExperimentError

# The tasks that wait for a worker, and the number of tries of each.

MAX_TRIES = 3
"""Number of workers that may be lost with a task before the task is given up."""


Positive = Annotated[int, Meta(ge=1)]


class WaitingTasks:
    """The positions of the tasks that wait for a worker.

    Tasks of lost workers follow all others: memory that ran out may be free by then.
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


# Errors of this package.


class ExecutorError(ExperimentError):
    """An executor cannot start: a package, a program, a cluster or an input file is missing."""


class LostTaskError(ExecutorError):
    """A task has no result: every worker that ran it was lost."""

    exit_status = 1

    def __init__(self, what: str, completed: int) -> None:
        super().__init__(what, completed)
        self.what = what
        self.completed = completed

    def __str__(self) -> str:
        return self.what


Task = TypeVar("Task")
Result = TypeVar("Result")


class InputFiles(Protocol):
    """Access of a task to the input files."""

    def local(self, path: Path) -> Path:
        """Return the path on this machine of a file of the driver.

        Relative paths from one input file to another are the same as on the driver.

        Args:
            path: path on the driver: one of the input files, or a folder that contains some.
        """
        ...

    def original(self, text: str) -> str:
        """Return a text, such as a message, with the driver's paths in place of local ones.

        Messages then are the same on all executors. Errors of tasks pass through this function.
        """
        ...


class Done(NamedTuple, Generic[Result]):
    """Outcome of a task.

    Attributes:
        index: position of the task in the sequence of tasks, from 0.
        result: value that the function returned; None if there is an error.
        error: one line: the exception of the function, or how its workers were lost. Empty: the
            task has a result.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index
    result: Result | None
    error: str


class Executor(Protocol):
    """Runs independent tasks. Each worker runs one task at a time, in one thread."""

    @property
    def workers(self) -> int:
        """Largest number of tasks that run at a time."""
        ...

    def run(
        self, function: Callable[[Task, InputFiles], Result], tasks: Sequence[Task]
    ) -> Iterator[Done[Result]]:
        """Call a function for each task; yield the outcomes in the order of their completion.

        The tasks of a lost worker run again, after all others and at most `MAX_TRIES` times in
        all. At most one call of `run` of an executor may be in progress.

        Args:
            function: a function that workers can import, or a `functools.partial` of one.
            tasks: first arguments of its calls. They are pickled, and so are the results.
        """
        ...


class Local(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="local"):
    """Processes on this machine.

    Attributes:
        workers: number of processes, >= 0. 0: tasks run in this process, one after another, and are
            not protected from each other. None: one per core.
    """

    workers: Annotated[int, Meta(ge=0)] | None = None


IN_THIS_PROCESS = Local(workers=0)


class Ray(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="ray"):
    """Workers of a Ray cluster.

    Attributes:
        address: `HOST:PORT` of a cluster, or `auto`: the cluster of this machine. None: start a
            cluster on this machine, reachable from this machine only, and stop it at the end.
        workers: largest number of tasks at a time. None: one per CPU of the cluster.
        timeout_s: timeout for the start of a cluster or the connection to it, s. A run fails if
            the cluster has no CPUs for that long.
    """

    address: str | None = None
    workers: Positive | None = None
    timeout_s: Annotated[float, Meta(gt=0)] = 60.0


class Slurm(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="slurm"):
    """Jobs of Slurm, submitted as arrays. Each array element runs a chunk of the tasks.

    Attributes:
        folder: folder for scripts, logs and results of the jobs, on a file system that all nodes
            share.
        partition: Slurm partition. None: the default partition of the cluster.
        time_min: time limit of an array element, minutes.
        memory_mb: memory of an array element, MB. None: the cluster's default.
        array_size: largest number of elements of an array.
        workers: largest number of elements that run at a time. None: `array_size`.
        setup: shell commands that run before Python, such as `module load python`.
        cluster: `local`: submitit's stand-in for Slurm, which runs all elements of an array at once
            as processes on this machine.
    """

    folder: Path = Path("slurm-jobs")
    partition: str | None = None
    time_min: Positive = 60
    memory_mb: Positive | None = None
    array_size: Positive = 100
    workers: Positive | None = None
    setup: tuple[str, ...] = ()
    cluster: Literal["slurm", "local"] = "slurm"


ExecutorSettings = Local | Ray | Slurm


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
