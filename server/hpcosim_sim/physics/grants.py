"""Validation of allocations by everything beyond cores, and the resources that a job then holds."""

from __future__ import annotations

from typing import NamedTuple

from hpcosim_protocol import AllocateJob, JobRequest, ResourceError
from hpcosim_protocol.features import satisfied
from hpcosim_protocol.node_access import blocked_by_reservation, fits_in
from hpcosim_protocol.resources import memory_on, tasks_on
from hpcosim_sim.errors import Rejection
from hpcosim_sim.physics.allocation import check_idle, check_nodes, check_tasks, filled_in_order
from hpcosim_sim.physics.cluster import NO_REQUEST, Cluster, NodeSet, SiteRules
from hpcosim_sim.physics.node_power import NodePower
from hpcosim_sim.physics.resources import (
    PARTS_PER_MB,
    HeldResources,
    NodeRoom,
    Resources,
    devices_of,
    memory_parts,
    room_on,
)
from hpcosim_workloads.table import JobSpec


class Grant(NamedTuple):
    """A valid allocation.

    Attributes:
        whole: whether the job holds all cores of its nodes.
    """

    tasks: list[int]
    whole: bool
    resources: HeldResources


def grant_of(
    cluster: Cluster,
    resources: Resources,
    power: NodePower,
    job: JobSpec,
    wanted: AllocateJob,
    now_s: float,
) -> Grant:
    """Return what a job is granted by an allocation.

    Raises:
        Rejection: the allocation differs from the request of the job, is not permitted by a
            partition or a reservation, or needs resources that are not free.
    """
    site, request, nodes = cluster.site, job.request or NO_REQUEST, wanted.nodes
    check_nodes(cluster, nodes)
    partition = _partition_of(site, job, nodes)
    _check_choice_of_nodes(site, job.job_id, request, nodes)
    if site.platform.reservations:
        end_s = power.expected_on_s(now_s, nodes) + job.requested_s
        check_reservations(site, job, nodes, now_s, end_s)
    whole = is_whole(site, job, partition)
    if whole:
        check_idle(cluster, nodes, f"job {job.job_id} needs whole nodes")
    if wanted.cores:
        tasks = list(wanted.cores)
        check_tasks(cluster, job, nodes, tasks)
    else:
        room = [_room(cluster, resources, job, request, node) for node in nodes]
        tasks = filled_in_order(job, nodes, room)
    if job.placement == "one_node" and len(nodes) > 1:
        raise Rejection(
            "bad_allocation",
            f"job {job.job_id} has placement one_node; expected 1 node, got {len(nodes)}",
        )
    _check_tasks_per_node(job.job_id, request, nodes, tasks)
    counts = [tasks_on(request, count) for count in tasks]
    free = [resources.free_devices[node] for node in nodes]
    held = HeldResources(
        nodes,
        _memory(resources, job, request, nodes, tasks),
        devices_of(request, counts, free, wanted.gres),
        _licenses(resources, request),
    )
    return Grant(tasks, whole, held)


def is_whole(site: SiteRules, job: JobSpec, partition: NodeSet) -> bool:
    """Return whether a job holds all cores of its nodes in a partition."""
    return (
        job.placement == "whole_nodes"
        or partition.exclusive
        or "cores" not in site.platform.consumable
    )


def _violated(what: str) -> Rejection:
    return Rejection("constraint_violated", f"allocate_job.nodes: {what}")


def _partition_of(site: SiteRules, job: JobSpec, nodes: list[int]) -> NodeSet:
    """Return the first partition of a job that contains all nodes of an allocation."""
    try:
        partitions = site.partitions(job.partition)
    except ResourceError as error:  # a job that a front end admitted in spite of this
        raise _violated(str(error)) from None
    for partition in partitions:
        if partition.nodes.issuperset(nodes):
            return partition
    names = ", ".join(partition.name for partition in partitions)
    outside = [node for node in nodes if node not in partitions[0].nodes] or nodes
    raise _violated(
        f"no partition of job {job.job_id} ({names}) has all nodes; node {outside[0]} is not in "
        f"{partitions[0].name}"
    )


def _check_choice_of_nodes(
    site: SiteRules, job_id: int, request: JobRequest, nodes: list[int]
) -> None:
    for node in request.required_nodes:
        if node not in nodes:
            raise _violated(f"job {job_id} requires node {node}")
    for node in request.excluded_nodes:
        if node in nodes:
            raise _violated(f"job {job_id} excludes node {node}")
    if len(nodes) < request.nodes_min:
        raise _violated(f"job {job_id} requires {request.nodes_min} nodes, got {len(nodes)}")
    if 0 < request.nodes_max < len(nodes):
        raise _violated(f"job {job_id} has at most {request.nodes_max} nodes, got {len(nodes)}")
    if request.features:
        features = [site.features[site.group_of[node]] for node in nodes]
        if not satisfied(request.features, features):
            raise _violated(
                f"job {job_id} requires the features {request.features!r}; the nodes lack them"
            )


def check_reservations(
    site: SiteRules, job: JobSpec, nodes: list[int], now_s: float, end_s: float
) -> None:
    """Check that reservations permit a job to use nodes from now to its expected end."""
    own = job.request.reservation if job.request is not None else ""
    if own:
        reservation = site.reservations[own]
        if not fits_in(reservation, now_s, end_s):
            raise Rejection(
                "reserved",
                f"job {job.job_id} would run from {now_s} to {end_s} s, outside the windows of "
                f"its reservation {own}",
            )
        outside = [node for node in nodes if node not in site.reserved_nodes[own]]
        if outside and "flex" not in reservation.flags:
            raise Rejection("reserved", f"node {outside[0]} is not in the reservation {own}")
    for other, begin_s, over_s in blocked_by_reservation(site.platform, now_s, end_s, own):
        taken = site.reserved_nodes[other.name].intersection(nodes)
        if taken:
            raise Rejection(
                "reserved",
                f"node {min(taken)} is reserved by {other.name} from {begin_s} to {over_s} s; job "
                f"{job.job_id} would run until {end_s} s",
            )


def _room(
    cluster: Cluster, resources: Resources, job: JobSpec, request: JobRequest, node: int
) -> int:
    """Return the number of cores that a job may have on a node now.

    One task is assumed to fit on a node with free cores: the check of memory and devices names
    what is missing.
    """
    free = NodeRoom(
        cluster.free[node],
        resources.free_memory[node],
        memory_parts(resources.memory_mb[node]),
        resources.free_devices[node],
    )
    room = room_on(request, job.memory_mb, free, limits_memory=resources.limits_memory)
    return room or (request.cores_per_task if free.cores >= request.cores_per_task else 0)


def _check_tasks_per_node(
    job_id: int, request: JobRequest, nodes: list[int], tasks: list[int]
) -> None:
    each = request.cores_per_task
    for node, count in zip(nodes, tasks, strict=True):
        if count % each:
            raise Rejection(
                "bad_allocation",
                f"allocate_job.cores takes {count} of node {node}; expected a multiple of "
                f"cores_per_task {each} of job {job_id}",
            )
        if 0 < request.tasks_per_node < count // each:
            raise Rejection(
                "constraint_violated",
                f"allocate_job.cores takes {count} of node {node}, {count // each} tasks; job "
                f"{job_id} has at most {request.tasks_per_node} tasks on a node",
            )


def _memory(
    resources: Resources, job: JobSpec, request: JobRequest, nodes: list[int], tasks: list[int]
) -> list[int]:
    """Return the memory that a job holds on each node, in parts of an MB."""
    if not resources.limits_memory:
        return [0] * len(nodes)
    needed = [
        memory_parts(memory_on(request, job.memory_mb, count, resources.memory_mb[node]))
        for node, count in zip(nodes, tasks, strict=True)
    ]
    for node, memory in zip(nodes, needed, strict=True):
        if memory > resources.free_memory[node]:
            raise Rejection(
                "insufficient_memory",
                f"job {job.job_id} needs {memory / PARTS_PER_MB:g} MB of node {node}; free: "
                f"{resources.free_memory[node] / PARTS_PER_MB:g} MB",
            )
    return needed


def _licenses(resources: Resources, request: JobRequest) -> dict[str, int]:
    for name, count in request.licenses.items():
        free = resources.free_licenses.get(name, 0)
        if count > free:
            raise Rejection(
                "insufficient_licenses",
                f"the job needs {count} licences of {name[:200]!r}; free: {free}",
            )
    return dict(request.licenses)
