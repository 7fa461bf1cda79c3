"""Parallel execution in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

Map = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]
"""Maps a function over items; returns the results in the order of the items."""


@contextmanager
def parallel_map(workers: int) -> Iterator[Map]:
    """Yield a map over worker processes; with one worker, the map runs in this process.

    Args:
        workers: number of processes. Functions and items must be picklable.
    """
    if workers == 1:
        yield lambda function, items: [function(item) for item in items]
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        try:
            yield lambda function, items: list(pool.map(function, items))
        finally:
            pool.shutdown(cancel_futures=True)
