"""The number of cores that a job may have on one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from hpcosim_protocol import JobRequest, ResourceError
from hpcosim_protocol.resources import choose_devices, memory_on
from hpcosim_sim.physics.resources import PARTS_PER_MB, memory_parts


class NodeRoom(NamedTuple):
    """What is free on a node.

    Attributes:
        cores: free cores.
        memory: free memory, in parts of an MB.
        all_memory: memory of the node, in parts of an MB.
        devices: free thousandths of each device, by name of the resource with its type.
    """

    cores: int
    memory: int
    all_memory: int
    devices: Mapping[str, Sequence[int]]


def room_on(request: JobRequest, memory_mb: float, free: NodeRoom, *, limits_memory: bool) -> int:
    """Return the number of cores that a job may have on a node, a multiple of its cores per task.

    The devices of `gres_per_job` do not count: they may be on other nodes.

    Args:
        request: request of the job.
        memory_mb: memory for each core, MB.
        free: what is free on the node.
        limits_memory: whether memory is consumable.
    """
    each = request.cores_per_task
    tasks = free.cores // each
    if request.tasks_per_node:
        tasks = min(tasks, request.tasks_per_node)
    if limits_memory:
        tasks = _fitting_memory(request, memory_mb, free, tasks)
    if request.gres_per_node or request.gres_per_task:
        while tasks > 0 and not _devices_suffice(request, tasks, free.devices):
            tasks -= 1
    return tasks * each


def _fitting_memory(request: JobRequest, memory_mb: float, free: NodeRoom, tasks: int) -> int:
    """Return the greatest number of tasks, at most `tasks`, whose memory is free."""
    each = request.cores_per_task
    node_mb = free.all_memory / PARTS_PER_MB
    if memory_parts(memory_on(request, memory_mb, tasks * each, node_mb)) <= free.memory:
        return tasks
    if request.all_memory or request.memory_per_node_mb > 0 or memory_mb <= 0:
        return 0
    tasks = min(tasks, int(free.memory / (memory_mb * PARTS_PER_MB * each)) + 1)
    while tasks and memory_parts(memory_mb * tasks * each) > free.memory:
        tasks -= 1
    return tasks


def _devices_suffice(request: JobRequest, tasks: int, devices: Mapping[str, Sequence[int]]) -> bool:
    """Return whether the free devices of a node are sufficient for a number of tasks."""
    if request.gres_per_job:
        request = replace(request, gres_per_job={})
    try:
        choose_devices(request, [tasks], [devices])
    except ResourceError:
        return False
    return True
