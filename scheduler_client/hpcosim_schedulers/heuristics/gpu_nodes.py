"""Free cores and devices of nodes as arrays, for policies that pack jobs with GPUs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Ints, Job
from hpcosim_client.nodes import NodePool
from hpcosim_protocol.resources import WHOLE_DEVICE, tasks_on, thousandths

GPU = "gpu"
"""Name of the resource; devices of any type count."""


class GpuNeed(NamedTuple):
    """What a job needs of the GPUs of its node.

    Attributes:
        part: thousandths of each GPU; 0: the job needs none.
        gpus: number of GPUs, or of parts.
    """

    part: int
    gpus: int

    @property
    def one_share(self) -> bool:
        """Whether the job needs a share of one GPU."""
        return self.gpus == 1 and 0 < self.part < WHOLE_DEVICE

    @property
    def total(self) -> int:
        """Thousandths of all GPUs together."""
        return self.part * self.gpus


NO_GPU = GpuNeed(0, 0)


def gpu_need(job: Job) -> GpuNeed:
    """Return what a job on one node needs of its GPUs, of the first request that names them.

    Requests are for the node, for each task or for the job, with or without type. Shares of several
    tasks may be on the same GPU.
    """
    request = job.request
    if request is None:
        return NO_GPU
    requests = (
        (request.gres_per_node, 1),
        (request.gres_per_task, tasks_on(request, job.cores)),
        (request.gres_per_job, 1),
    )
    for amounts, times in requests:
        for name, amount in amounts.items():
            if name.partition(":")[0] == GPU:
                needed = thousandths(amount)
                part = min(needed, WHOLE_DEVICE)
                return GpuNeed(part, needed // part * times)
    return NO_GPU


class GpuNodes(NamedTuple):
    """Free cores and GPUs.

    Attributes:
        nodes: the node pool.
        slots: int64[nodes, GPUs], slots of the GPUs; see `Slots.devices`.
        cores: int64[nodes], free cores.
        gpus: int64[nodes, GPUs], free thousandths; 0 where a node has fewer GPUs.
        total: int64[nodes, GPUs], thousandths of idle GPUs; 0 where a node has fewer.
    """

    nodes: NodePool
    slots: Ints
    cores: Ints
    gpus: Ints
    total: Ints


def gpu_nodes(nodes: NodePool) -> GpuNodes:
    """Return the free cores and GPUs of all nodes."""
    slots = nodes.slots.devices(GPU)
    return GpuNodes(nodes, slots, nodes.free, nodes.amounts[slots], nodes.slots.capacity[slots])


def fitting(job: Job, here: GpuNodes) -> Ints:
    """Return the numbers of the nodes on which a job fits as a whole now, ascending."""
    return np.flatnonzero(here.nodes.holds(job))


def fullest(gpus: Ints, part: int) -> Ints:
    """Return the fullest GPU of each node that has a free part; of equal ones the first.

    Args:
        gpus: int64[n, GPUs], free thousandths.
        part: thousandths; each row has at least one GPU with them.
    """
    found: Ints = np.where(gpus >= part, gpus, 2 * WHOLE_DEVICE).argmin(axis=1)
    return found


def devices_of(here: GpuNodes, node: int, columns: Ints) -> dict[str, list[int]]:
    """Return the numbers of GPUs of a node by name with type.

    Args:
        here: the GPUs.
        node: number of the node.
        columns: columns of the GPUs in `here.gpus`.
    """
    wanted = set(here.slots[node, columns].tolist())
    found: dict[str, list[int]] = {}
    for name, slots in here.nodes.slots.devices_of(node).items():
        numbers = [number for number, slot in enumerate(slots.tolist()) if slot in wanted]
        if numbers:
            found[name] = numbers
    return found
