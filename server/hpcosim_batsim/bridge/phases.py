"""Phases of a task: the load of its hosts over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hpcosim_batsim.inputs.tasks import HostTask, SimpleTask

Loads = Mapping[int, float]


def phases(task: HostTask) -> Iterator[tuple[float, Loads]]:
    """Yield the phases of a task in order: duration, s, and load by host number, 0 to 1."""
    if isinstance(task, SimpleTask):
        yield task.latency_s, {}
        yield task.duration_s - task.latency_s, task.loads
        return
    for _ in range(task.repeat):
        for part in task.tasks:
            yield from phases(part)
