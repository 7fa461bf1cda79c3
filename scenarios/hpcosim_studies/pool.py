"""Parallel execution in a pool of processes."""

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
"""Environment variables for the number of threads of linear algebra and PyTorch."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
        StudyError: a process was killed, for example because memory ran out.
        Exception: any exception of the function.
    """
    count = min(workers or cores(), len(tasks))
    results = []
    try:
        with shown(title, "runs") as report, _mapped(function, tasks, count) as found:
            for result in found:
                results.append(result)
                report(0.0, len(results), len(tasks))
    except BrokenProcessPool:
        raise StudyError(
            f"{title}: one of {count} worker processes was killed after {len(results)} of "
            f"{len(tasks)} tasks, probably because memory ran out; use fewer workers"
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
    os.environ.update(dict.fromkeys(THREADS, "1"))  # before the processes start
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
