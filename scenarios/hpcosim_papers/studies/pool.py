"""Parallel execution of the runs of a study, with progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from hpcosim_experiments.executors import (
    IN_THIS_PROCESS,
    Local,
    LostTaskError,
    cores,
    open_executor,
    results_of,
)
from hpcosim_papers.studies.errors import StudyError
from hpcosim_scenarios.running.progress import shown

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_parallel(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    workers: int | None = None,
    title: str = "study",
) -> list[Result]:
    """Call a function for each task and return the results in the order of the tasks.

    Each process has one thread, so the results do not depend on the number of processes.

    Args:
        function: a function that other processes can import.
        tasks: its arguments, one for each call.
        workers: number of processes; 1: the current process; None: one per core.
        title: title of the progress bar.

    Raises:
        StudyError: the processes of a task were killed, for example because memory ran out.
        Exception: any exception of the function.
    """
    count = min(workers or cores(), len(tasks))
    settings = Local(workers=count) if count > 1 else IN_THIS_PROCESS
    with shown(title, "runs") as report, open_executor(settings) as executor:
        try:
            return results_of(
                executor, function, tasks, lambda completed, total: report(0.0, completed, total)
            )
        except LostTaskError as error:
            raise StudyError(
                f"{title}: after {error.completed} of {len(tasks)} tasks: {error}"
            ) from None
