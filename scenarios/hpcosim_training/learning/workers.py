"""Work in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

Map = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]
"""Returns the results of a function for each item, in their order."""


@contextmanager
def parallel_map(workers: int) -> Iterator[Map]:
    """Yield a map over processes; over this one, if one worker is enough.

    Args:
        workers: how many processes. What they are given is pickled.
    """
    if workers == 1:
        yield lambda function, items: [function(item) for item in items]
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        try:
            yield lambda function, items: list(pool.map(function, items))
        finally:
            pool.shutdown(cancel_futures=True)
