"""What a task asks of its hosts over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hpcosim_batsim.inputs.profiles import Leaf, Task

Loads = Mapping[int, float]


def phases(task: Task) -> Iterator[tuple[float, Loads]]:
    """Yield its parts in order: how long each takes, s, and how it loads each host."""
    if isinstance(task, Leaf):
        yield task.duration_s, task.loads
        return
    for _ in range(task.repeat):
        for part in task.tasks:
            yield from phases(part)
