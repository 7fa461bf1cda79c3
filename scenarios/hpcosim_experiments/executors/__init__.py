"""Execution of independent tasks: in local processes, on a Ray cluster, or as Slurm jobs.

`open_executor` opens the executor that the settings describe. Every executor gives the same results
for the same tasks, runs the tasks of a lost worker again, and holds each worker to one thread.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, assert_never

from hpcosim_experiments.executors.calls import FilesInPlace
from hpcosim_experiments.executors.interface import (
    IN_THIS_PROCESS,
    Done,
    Executor,
    ExecutorError,
    ExecutorSettings,
    InputFiles,
    Local,
    LostTaskError,
    Ray,
    Slurm,
    cores,
)
from hpcosim_experiments.executors.local import open_local
from hpcosim_experiments.executors.ray_executor import open_ray
from hpcosim_experiments.executors.slurm_executor import open_slurm

__all__ = [
    "IN_THIS_PROCESS",
    "Done",
    "Executor",
    "ExecutorError",
    "ExecutorSettings",
    "FilesInPlace",
    "InputFiles",
    "Local",
    "LostTaskError",
    "ParallelMap",
    "Ray",
    "Slurm",
    "cores",
    "open_executor",
    "parallel_map",
    "results_of",
]


Task = TypeVar("Task")
Result = TypeVar("Result")


def results_of(
    executor: Executor,
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    on_done: Callable[[int, int], object] = lambda completed, total: None,
) -> list[Result]:
    """Call a function for each task and return the results in the order of the tasks.

    Args:
        function: a function that workers can import, or a `functools.partial` of one.
        tasks: its arguments, one for each call.
        on_done: called after each task with the number of completed tasks and of all tasks.

    Raises:
        LostTaskError: the workers of a task were lost, for example because memory ran out.
        Exception: any exception of the function; a note has its traceback in the worker.
    """
    tasks = list(tasks)
    results: dict[int, Result] = {}
    for done in executor.run(partial(_caught, function), tasks):
        if done.result is None:
            raise LostTaskError(
                f"task {done.index + 1} of {len(tasks)} has no result: {done.error}", len(results)
            )
        result, exception = done.result
        if exception is not None:
            raise exception
        results[done.index] = result
        on_done(len(results), len(tasks))
    return [results[index] for index in range(len(tasks))]


class ParallelMap:
    """Maps a function over items, on the workers of an executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    @property
    def workers(self) -> int:
        """Number of calls at the same time."""
        return self._executor.workers

    def __call__(self, function: Callable[[Task], Result], items: Iterable[Task]) -> list[Result]:
        """Return the results of a function in the order of the items, see `results_of`."""
        return results_of(self._executor, function, items)


@contextmanager
def parallel_map(settings: ExecutorSettings) -> Iterator[ParallelMap]:
    """Yield a map over the workers of an executor.

    Raises:
        ExecutorError: the executor cannot start.
    """
    with open_executor(settings) as executor:
        yield ParallelMap(executor)


def _caught(
    function: Callable[[Any], Any], task: Any, _: InputFiles
) -> tuple[Any, Exception | None]:
    try:
        return function(task), None
    except Exception as error:
        error.add_note(f"in a worker:\n{traceback.format_exc()}")
        return None, error


@contextmanager
def open_executor(
    settings: ExecutorSettings,
    files: Sequence[Path] = (),
    folders: Mapping[str, Path] | None = None,
) -> Iterator[Executor]:
    """Open an executor; its workers stop when the context ends.

    Args:
        files: all files that the tasks read. Ray ships them once to each node; local processes and
            Slurm read them in place.
        folders: environment variables of the workers that name a folder of input files, such as
            `HPCOSIM_TRACES`, with the folder on the driver.

    Raises:
        ExecutorError: an input file is missing, the package or programs of the executor are not
            installed, or the cluster does not answer.
    """
    for path in files:
        if not path.is_file():
            raise ExecutorError(f"{path}: no such input file")
    match settings:
        case Local():
            with open_local(settings, folders or {}) as executor:
                yield executor
        case Ray():
            with open_ray(settings, files, folders or {}) as executor:
                yield executor
        case Slurm():
            with open_slurm(settings, folders or {}) as executor:
                yield executor
        case _:
            assert_never(settings)
