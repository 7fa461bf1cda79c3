"""Results in the order of the tasks, and the exceptions of the function."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from hpcosim_experiments.executors.interface import Executor, InputFiles, LostTaskError
from hpcosim_experiments.executors.opening import open_executor
from hpcosim_experiments.executors.settings import ExecutorSettings

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
        executor: runs the tasks.
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
    """Maps a function over items, on the workers of an executor.

    Args:
        executor: runs the calls.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def __call__(self, function: Callable[[Task], Result], items: Iterable[Task]) -> list[Result]:
        """Return the results of a function in the order of the items, see `results_of`."""
        return results_of(self._executor, function, items)


@contextmanager
def parallel_map(settings: ExecutorSettings) -> Iterator[ParallelMap]:
    """Yield a map over the workers of an executor.

    Args:
        settings: settings of the executor.

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
