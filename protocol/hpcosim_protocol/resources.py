"""Resources that a job holds, as the server and schedulers compute them.

Section 11.9 of the specification has the rules.

Devices that are not sufficient, and amounts that have no meaning, are a `ResourceError`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hpcosim_protocol.errors import ResourceError
from hpcosim_protocol.requests import JobRequest

WHOLE_DEVICE = 1000
"""Thousandths of a device."""


class DeviceDemand(NamedTuple):
    """Parts of devices that a job needs on a node. Each part is on one device.

    Attributes:
        name: name of the resource, with or without type.
        thousandths: size of each part; `WHOLE_DEVICE`: a whole device.
    """

    name: str
    thousandths: int
    parts: int


def tasks_on(request: JobRequest | None, cores: int) -> int:
    """Return the number of tasks of a job that has `cores` cores on a node."""
    return cores if request is None else cores // request.cores_per_task


def memory_on(
    request: JobRequest | None, memory_mb: float, cores: int, node_memory_mb: float
) -> float:
    """Return the memory that a job holds on a node, MB.

    Args:
        memory_mb: `JobSubmitted.memory_mb`, memory for each core, MB.
    """
    if request is not None:
        if request.all_memory:
            return node_memory_mb
        if request.memory_per_node_mb > 0:
            return request.memory_per_node_mb
    return memory_mb * cores


def thousandths(amount: float) -> int:
    """Return an amount of a generic resource in thousandths of a device.

    Args:
        amount: a whole number of devices, or a share of one device, 0.001 to 0.999.
    """
    found = round(amount * WHOLE_DEVICE) if math.isfinite(amount) else 0
    whole = found >= WHOLE_DEVICE and amount == int(amount)
    if not whole and not (0 < found < WHOLE_DEVICE and abs(found / WHOLE_DEVICE - amount) < 1e-9):
        raise ResourceError(
            "expected a whole number of devices, or a share of one device in thousandths such as "
            f"0.25, got {amount}"
        )
    return found


def gres_on(request: JobRequest | None, tasks: int) -> list[DeviceDemand]:
    """Return the devices that a job needs on a node, without those of `gres_per_job`.

    Requests with a type are first, because they have the fewest devices to choose from. Of each
    kind, the order is that of `gres_per_node`, then of `gres_per_task`.

    Args:
        request: request of the job.
    """
    if request is None:
        return []
    demands = [
        *(_demand(name, amount, 1) for name, amount in request.gres_per_node.items()),
        *(_demand(name, amount, tasks) for name, amount in request.gres_per_task.items()),
    ]
    return sorted(demands, key=lambda demand: ":" not in demand.name)


def gres_of_job(request: JobRequest) -> list[DeviceDemand]:
    """Return the devices of `gres_per_job`, requests with a type first."""
    demands = [_demand(name, amount, 1) for name, amount in request.gres_per_job.items()]
    return sorted(demands, key=lambda demand: ":" not in demand.name)


def provides(device: str, wanted: str) -> bool:
    """Return whether a resource `device` such as `gpu:a100` meets a request for `wanted`.

    `gpu` is met by devices of any type, `gpu:a100` only by those of its type.
    """
    return device == wanted or (":" not in wanted and device.split(":", 1)[0] == wanted)


def choose_devices(
    request: JobRequest, tasks: Sequence[int], free: Sequence[Mapping[str, Sequence[int]]]
) -> list[dict[str, list[int]]]:
    """Return the devices that the server chooses for a job, on each of its nodes.

    Whole devices have the lowest free numbers, in the platform's order of types. A share is on the
    device with the least free part that is sufficient. Devices of `gres_per_job` are filled in the
    order of the nodes, after those of the other requests.

    Args:
        free: for each node the free thousandths of each device, by name with type.

    Returns:
        For each node the device numbers by name with type. A device has one entry for each part.
    """
    left = [{name: list(devices) for name, devices in node.items()} for node in free]
    chosen: list[dict[str, list[int]]] = [{} for _ in free]
    for place, tasks_here in enumerate(tasks):
        for demand in gres_on(request, tasks_here):
            missing = _take(demand, left[place], chosen[place])
            if missing:
                raise ResourceError(
                    f"{_shown(demand)} needed on node {place} of the allocation, {missing} not free"
                )
    for whole in gres_of_job(request):
        demand = whole
        for place, devices in enumerate(left):
            missing = _take(demand, devices, chosen[place])
            demand = demand._replace(parts=missing)
        if demand.parts:
            raise ResourceError(
                f"{_shown(whole)} needed on all nodes together, {demand.parts} not free"
            )
    return chosen


def _demand(name: str, amount: float, times: int) -> DeviceDemand:
    total = thousandths(amount)
    if total < WHOLE_DEVICE:
        return DeviceDemand(name, total, times)
    return DeviceDemand(name, WHOLE_DEVICE, total // WHOLE_DEVICE * times)


def _take(demand: DeviceDemand, free: dict[str, list[int]], chosen: dict[str, list[int]]) -> int:
    """Choose devices of a node for a demand, and return how many of its parts are missing."""
    for missing in range(demand.parts, 0, -1):
        fitting = [
            (part, name, number)
            for name, devices in free.items()
            if provides(name, demand.name)
            for number, part in enumerate(devices)
            if part >= demand.thousandths
        ]
        if not fitting:
            return missing
        _, name, number = min(fitting, key=lambda each: each[0])  # of equal ones the first
        free[name][number] -= demand.thousandths
        chosen.setdefault(name, []).append(number)
    return 0


def _shown(demand: DeviceDemand) -> str:
    """Return a demand for messages, such as `gpu: 2` or `gpu: 3 x 0.5`."""
    if demand.thousandths == WHOLE_DEVICE:
        return f"{demand.name}: {demand.parts}"
    return f"{demand.name}: {demand.parts} x {demand.thousandths / WHOLE_DEVICE:g}"
