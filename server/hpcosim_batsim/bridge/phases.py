"""Phases of a task: the load of its hosts over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hpcosim_batsim.inputs.tasks import HostTask, parts

Loads = Mapping[int, float]


def phases(task: HostTask) -> Iterator[tuple[float, Loads]]:
    """Yield the phases of a task in order: duration, s, and load by host number, 0 to 1."""
    for part in parts(task):
        yield part.latency_s, {}
        yield part.duration_s - part.latency_s, part.loads
