"""The order of tests for workers that run them in parallel."""

from __future__ import annotations

from collections.abc import Sequence

import pytest


def for_workers(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return the tests so that each worker begins with slow files and ends with fast ones.

    With `--dist=worksteal` the first share of the list is for the first worker, and so on; a worker
    without tests takes half of what another has left, from its end. So all workers end together:
    what they take from each other takes milliseconds.

    Args:
        items: all tests, sorted by file.
        workers: number of workers, > 0.
    """
    slow_files = {item.path for item in items if item.get_closest_marker("slow")}
    kinds = (
        [item for item in items if item.path in slow_files],
        [item for item in items if item.path not in slow_files],
    )
    return [
        item
        for worker in range(workers)
        for kind in kinds
        for item in kind[len(kind) * worker // workers : len(kind) * (worker + 1) // workers]
    ]
