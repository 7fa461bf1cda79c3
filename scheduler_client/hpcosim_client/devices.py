"""What a job holds of stated devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hpcosim_protocol import JobRequest
from hpcosim_protocol.resources import gres_of_job, gres_on, provides

Devices = Sequence[Mapping[str, Sequence[int]]]
"""Numbers of devices on each node of an allocation, by name of the resource with its type."""


def device_amounts(
    request: JobRequest, tasks: Sequence[int], chosen: Devices
) -> list[tuple[int, str, int, int]] | None:
    """Return what a job holds of stated devices; None: they are not those of its request.

    Args:
        request: request of the job.
        tasks: number of tasks on each node.
        chosen: numbers of the devices on each node, one for each part.

    Returns:
        Index of the node in `tasks`, name with type, number of the device, and thousandths.
    """
    left = [{name: list(numbers) for name, numbers in node.items()} for node in chosen]
    if len(left) != len(tasks):
        return None
    found: list[tuple[int, str, int, int]] = []
    for at, count in enumerate(tasks):
        for name, part, parts in gres_on(request, count):
            taken = _taken(left[at], name, parts)
            if len(taken) < parts:
                return None
            found += [(at, typed, number, part) for typed, number in taken]
    for name, part, missing in gres_of_job(request):
        for at, node in enumerate(left):
            taken = _taken(node, name, missing)
            missing -= len(taken)
            found += [(at, typed, number, part) for typed, number in taken]
        if missing:
            return None
    return None if any(any(node.values()) for node in left) else found


def _taken(left: Mapping[str, list[int]], name: str, parts: int) -> list[tuple[str, int]]:
    """Remove up to `parts` devices that meet a request from those left, and return them."""
    taken: list[tuple[str, int]] = []
    for typed, numbers in left.items():
        if provides(typed, name):
            count = parts - len(taken)
            taken += [(typed, number) for number in numbers[:count]]
            del numbers[:count]
    return taken
