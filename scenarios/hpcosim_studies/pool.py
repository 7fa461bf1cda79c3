"""Work on several cores, in processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

from hpcosim_scenarios.running.progress import shown
from hpcosim_studies.errors import StudyError

Task = TypeVar("Task")
Result = TypeVar("Result")

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""The variables that set the threads of linear algebra and of PyTorch."""


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_parallel(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    workers: int | None = None,
    title: str = "study",
) -> list[Result]:
    """Return what a function returns for each task, in the order of the tasks.

    Each process has one thread, so the results do not depend on the number of processes.

    Args:
        function: importable by name, so that a new process finds it.
        tasks: its arguments.
        workers: processes; 1: this one; None: one for each core.
        title: what the progress shown is of.

    Raises:
        StudyError: a process was killed, as for lack of memory.
        What the function raises.
    """
    count = min(workers or cores(), len(tasks))
    results = []
    try:
        with shown(title) as report, _mapped(function, tasks, count) as found:
            for result in found:
                results.append(result)
                report(0.0, len(results), len(tasks))
    except BrokenProcessPool:
        raise StudyError(
            f"{title}: one of {count} worker processes was killed after {len(results)} of "
            f"{len(tasks)} tasks; with fewer workers each has more memory"
        ) from None
    return results


@contextmanager
def _mapped(
    function: Callable[[Task], Result], tasks: Sequence[Task], workers: int
) -> Iterator[Iterator[Result]]:
    if workers <= 1:
        yield map(function, tasks)
        return
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))  # new processes read them at their start
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    try:
        yield pool.map(function, tasks)
    finally:
        pool.shutdown(cancel_futures=True)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
