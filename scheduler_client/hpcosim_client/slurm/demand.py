"""What a job demands of each node and of all its nodes together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hpcosim_client.job import Bools, Floats, Ints, Job
from hpcosim_client.slurm.cluster import (
    SHARES,
    ClusterNodes,
    FreeResources,
    Holding,
    NodeSet,
    mask_of_set,
    node_set,
)
from hpcosim_protocol import JobRequest

NO_REQUEST = JobRequest()
Shares = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class NodeDemand:
    """What determines how many tasks of a job fit on a node; jobs alike share one value.

    Attributes:
        cores_per_task: cores of a task.
        tasks_per_node: maximum number of tasks on a node; 0: no limit.
        least_tasks: number of tasks below which a node is not used. `--ntasks-per-node` implies
            it (`pn_min_cpus`; observed with Slurm 22.05).
        memory_per_core_mb, memory_per_node_mb: memory; one of them is 0.
        all_memory: whether the job holds the whole memory of its nodes.
        per_node, per_task: shares of devices by name.
        whole: whether the job holds whole nodes.
    """

    cores_per_task: int
    tasks_per_node: int
    least_tasks: int
    memory_per_core_mb: float
    memory_per_node_mb: float
    all_memory: bool
    per_node: Shares
    per_task: Shares
    whole: bool


@dataclass(frozen=True, slots=True)
class Demand:
    """What a job demands in one of its partitions.

    Attributes:
        tasks: number of tasks.
        node: what it demands of a node.
        nodes_min: least number of nodes, which the job states.
        nodes_wanted: number of nodes for which the choice of a switch looks.
        nodes_max: greatest number of nodes.
        usable: nodes of the partition that the job may use.
        required: nodes that must be part of the allocation.
        features: the job's expression of features; empty: any node.
        per_job: shares of devices for the whole job.
        switches: preferred greatest number of leaf switches; 0: no preference.
    """

    tasks: int
    node: NodeDemand
    nodes_min: int
    nodes_wanted: int
    nodes_max: int
    usable: NodeSet
    required: NodeSet
    features: str
    per_job: Shares
    switches: int


def demand_of(
    job: Job,
    cluster: ClusterNodes,
    usable: NodeSet,
    *,
    whole: bool = False,
    default_memory_per_core_mb: float = 0.0,
) -> Demand:
    """Return what a job demands.

    Args:
        job: a job.
        cluster: the nodes.
        usable: nodes of the partition.
        whole: whether the partition gives whole nodes only.
        default_memory_per_core_mb: memory of each core of a job that states none.
    """
    request = job.request or NO_REQUEST
    per_task = request.cores_per_task
    tasks = -(-job.cores // per_task)
    one_node = job.placement == "one_node"
    memory = job.memory_mb
    if not memory and not request.memory_per_node_mb and not request.all_memory:
        memory = default_memory_per_core_mb
    limited = request.tasks_per_node
    least = min(limited, tasks) if limited else 1
    node = NodeDemand(
        cores_per_task=per_task,
        tasks_per_node=limited,
        least_tasks=tasks if one_node else least,
        memory_per_core_mb=0.0 if request.memory_per_node_mb else memory,
        memory_per_node_mb=request.memory_per_node_mb,
        all_memory=request.all_memory,
        per_node=_shares(request.gres_per_node),
        per_task=_shares(request.gres_per_task),
        whole=whole or job.placement == "whole_nodes",
    )
    required = node_set(request.required_nodes)
    least_nodes = max(request.nodes_min, required.bit_count(), 1)
    by_tasks = -(-tasks // limited) if limited else 1
    most = request.nodes_max or cluster.count
    wanted = max(least_nodes, by_tasks, request.nodes_max)
    return Demand(
        tasks=tasks,
        node=node,
        nodes_min=max(least_nodes, by_tasks),
        nodes_wanted=min(wanted, tasks),
        nodes_max=1 if one_node else most,
        usable=usable & ~node_set(request.excluded_nodes),
        required=required,
        features=request.features,
        per_job=_shares(request.gres_per_job),
        switches=request.switches,
    )


def tasks_on_nodes(demand: NodeDemand, free: FreeResources, cluster: ClusterNodes) -> Ints:
    """Return int64[nodes]: tasks that fit on each node; 0 where too few fit."""
    tasks = free.cores // demand.cores_per_task
    if demand.tasks_per_node:
        tasks = np.minimum(tasks, demand.tasks_per_node)
    if demand.whole:
        tasks = np.where(free.jobs == 0, tasks, 0)
    if demand.all_memory:
        tasks = np.where(free.memory_mb >= cluster.memory_mb, tasks, 0)
    elif demand.memory_per_node_mb:
        tasks = np.where(free.memory_mb >= demand.memory_per_node_mb, tasks, 0)
    elif demand.memory_per_core_mb:
        of_task = demand.memory_per_core_mb * demand.cores_per_task
        by_memory = np.minimum(free.memory_mb // of_task, 2**31)
        tasks = np.minimum(tasks, by_memory.astype(np.int64))
    for name, shares in demand.per_node:
        tasks = np.where(shares_on_nodes(name, free) >= shares, tasks, 0)
    for name, shares in demand.per_task:
        tasks = np.minimum(tasks, shares_on_nodes(name, free) // shares)
    if demand.least_tasks > 1:
        tasks = np.where(tasks >= demand.least_tasks, tasks, 0)
    return tasks


def shares_on_nodes(name: str, free: FreeResources) -> Ints:
    """Return int64[nodes]: free shares of a resource; `gpu` counts the devices of all types."""
    prefix = f"{name}:"
    found = [s for typed, s in free.devices.items() if typed == name or typed.startswith(prefix)]
    if len(found) == 1:
        return found[0]
    return np.sum(found, axis=0) if found else np.zeros_like(free.cores)


def holding_of(
    demand: Demand, nodes: Ints, tasks: Ints, free: FreeResources, cluster: ClusterNodes
) -> Holding:
    """Return what a job holds that runs `tasks` on `nodes`.

    Args:
        demand: what the job demands.
        nodes: int64[n], node numbers.
        tasks: int64[n], tasks on each of them.
        free: the resources before it starts; devices of several types are taken in their order.
        cluster: the nodes.
    """
    of_node = demand.node
    cores = tasks * of_node.cores_per_task
    memory: Floats = cores * of_node.memory_per_core_mb
    if of_node.all_memory:
        memory = np.where(np.isinf(cluster.memory_mb[nodes]), 0.0, cluster.memory_mb[nodes])
    elif of_node.memory_per_node_mb:
        memory = np.full(len(nodes), of_node.memory_per_node_mb)
    devices: dict[str, Ints] = {}
    for name, shares in of_node.per_node:
        _hold_devices(name, np.full(len(nodes), shares), nodes, free, devices)
    for name, shares in of_node.per_task:
        _hold_devices(name, tasks * shares, nodes, free, devices)
    for name, shares in demand.per_job:
        offered = shares_on_nodes(name, free)[nodes]
        before = np.concatenate(([0], offered.cumsum()[:-1]))
        _hold_devices(name, np.clip(shares - before, 0, offered), nodes, free, devices)
    if of_node.whole:
        cores = cluster.cores[nodes]
    return Holding(nodes, cores, memory, devices)


def _hold_devices(
    name: str, wanted: Ints, nodes: Ints, free: FreeResources, devices: dict[str, Ints]
) -> None:
    left = wanted.copy()
    prefix = f"{name}:"
    for typed, shares in free.devices.items():
        if typed == name or typed.startswith(prefix):
            taken = np.minimum(shares[nodes] - devices.get(typed, 0), left)
            devices[typed] = devices.get(typed, 0) + taken
            left = left - taken


def usable_mask(demand: Demand, cluster: ClusterNodes) -> Bools:
    """Return bool[nodes]: the nodes that the job may use."""
    return mask_of_set(demand.usable, cluster.count)


def _shares(wanted: dict[str, float]) -> Shares:
    return tuple(
        (name, math.ceil(number * SHARES - 1e-6)) for name, number in sorted(wanted.items())
    )
