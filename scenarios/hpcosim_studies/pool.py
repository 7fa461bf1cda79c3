"""Parallel execution in worker processes."""

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
"""Environment variables that set the number of threads of linear algebra and PyTorch."""


def cores() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_parallel(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    workers: int | None = None,
    title: str = "study",
) -> list[Result]:
    """Return the results of a function for tasks, in the order of the tasks.

    Each process has one thread, so the results do not depend on the number of processes.

    Args:
        function: the function. It must be importable by name in a new process.
        tasks: arguments of the function.
        workers: number of processes; 1: this process only; None: one per core.
        title: title of the progress bar.

    Raises:
        StudyError: a worker process was killed, for example for lack of memory.
        Exception: any error of the function.
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
