"""Jobs that run in reality, on their real nodes in a copy of the cluster."""

from __future__ import annotations

from collections.abc import Sequence

from hpcosim_protocol import JobRequest
from hpcosim_protocol.resources import (
    WHOLE_DEVICE,
    DeviceDemand,
    gres_of_job,
    gres_on,
    memory_on,
    provides,
    tasks_on,
)
from hpcosim_sim.engine.engine import Engine
from hpcosim_sim.engine.jobs import SimulatedJob
from hpcosim_sim.physics.devices import FreeDevices
from hpcosim_sim.physics.grants import Grant
from hpcosim_sim.physics.resources import DeviceShares, HeldResources, memory_parts
from hpcosim_sim.physics.site import NO_REQUEST
from hpcosim_workloads.table import JobSpec


def place(engine: Engine, job: SimulatedJob, nodes: Sequence[int]) -> bool:
    """Start a waiting job on the nodes that it has in reality, now.

    Slurm does not say how many CPUs a job has on each node. They are spread evenly, and at most as
    many as the copy has free there.

    Args:
        engine: the copy of the cluster.
        job: the job; its number of cores is changed to that of its tasks.
        nodes: numbers of its nodes.

    Returns:
        Whether the job runs. Otherwise the copy has no free core on one of its nodes, because jobs
        share cores, or not all of its nodes belong to the copy.
    """
    free = [engine.cluster.free[node] for node in nodes]
    if not nodes or min(free) < 1:
        return False
    if any(engine.power.state[node] != "on" for node in nodes):
        return False  # Slurm's state of the node was read before
    start_on(engine, job, nodes, spread(job.spec.cores, free))
    return True


def start_on(engine: Engine, job: SimulatedJob, nodes: Sequence[int], tasks: list[int]) -> None:
    """Start a waiting job on nodes that it has in reality, now, whether a scheduler could or not.

    Beside its cores it gets what it requests, as far as the copy has it free.

    Args:
        engine: the copy of the cluster.
        job: the job; its number of cores is changed to that of its tasks.
        nodes: numbers of its nodes, which are on.
        tasks: number of its tasks on each node, at most the free cores.
    """
    is_idle = all(engine.cluster.free[node] == engine.cluster.capacity[node] for node in nodes)
    wants_whole = job.spec.placement == "whole_nodes"
    placement = "cores" if wants_whole and not is_idle else job.spec.placement
    job.spec = job.spec._replace(cores=sum(tasks), placement=placement)
    job.blocked = 0
    engine.recording.cores[job.row] = job.spec.cores
    held = _held(engine, job.spec, nodes, tasks)
    engine.allocate(job, list(nodes), tasks, Grant(tasks, wants_whole and is_idle, held))


def spread(cores: int, free: Sequence[int]) -> list[int]:
    """Return a number of tasks for each node, as even as possible, at least 1 and at most `free`.

    Args:
        cores: number of tasks together; nodes that are too small get fewer.
        free: free cores of each node, above 0.
    """
    tasks = [1] * len(free)
    left = cores - len(free)
    while left > 0:
        open_nodes = [at for at, count in enumerate(tasks) if count < free[at]]
        if not open_nodes:
            break
        each = max(left // len(open_nodes), 1)
        for at in open_nodes:
            more = min(each, free[at] - tasks[at], left)
            tasks[at] += more
            left -= more
    return tasks


def _held(engine: Engine, spec: JobSpec, nodes: Sequence[int], tasks: list[int]) -> HeldResources:
    """Return what a job has beside its cores: what it requests, as far as the copy has it free."""
    resources, request = engine.resources, spec.request or NO_REQUEST
    memory = [0] * len(nodes)
    if resources.limits_memory:
        memory = [
            min(
                memory_parts(memory_on(request, spec.memory_mb, count, resources.memory_mb[node])),
                resources.free_memory[node],
            )
            for node, count in zip(nodes, tasks, strict=True)
        ]
    counts = [tasks_on(request, count) for count in tasks]
    devices = _devices(request, counts, [resources.free_devices[node] for node in nodes])
    licenses = {
        name: min(count, resources.free_licenses.get(name, 0))
        for name, count in request.licenses.items()
    }
    return HeldResources(nodes, memory, devices, licenses)


def _devices(
    request: JobRequest, counts: Sequence[int], free: Sequence[FreeDevices]
) -> list[DeviceShares]:
    """Return the devices on each node, those of the lowest numbers. Slurm has no shares of one."""
    left = [
        {name: [n for n, part in enumerate(parts) if part == WHOLE_DEVICE] for name, parts in node}
        for node in (each.items() for each in free)
    ]
    held: list[DeviceShares] = [{} for _ in free]

    def take(place: int, demand: DeviceDemand) -> int:
        missing = demand.parts
        for name, numbers in left[place].items():
            if provides(name, demand.name) and (taken := numbers[:missing]):
                del numbers[:missing]
                missing -= len(taken)
                held[place].setdefault(name, []).extend((n, WHOLE_DEVICE) for n in taken)
        return missing

    for place, count in enumerate(counts):
        for demand in gres_on(request, count):
            take(place, demand)
    for demand in gres_of_job(request):
        missing = demand.parts
        for place in range(len(free)):
            missing = take(place, demand._replace(parts=missing))
    return held if any(any(node.values()) for node in held) else []
