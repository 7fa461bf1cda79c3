"""Validation of allocations, of changes of power states, and of jobs at their submission.

A decision that is not permitted is a `Rejection`, which states the reason.
"""

from __future__ import annotations

import math
from collections import Counter

from hpcosim_protocol import (
    AllocateJob,
    Platform,
    PowerState,
    SetNodePower,
    energy_estimate_j,
)
from hpcosim_sim.errors import Rejection
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_sim.physics.feasibility import request_infeasibility
from hpcosim_sim.physics.node_power import NodePower
from hpcosim_workloads.table import JobSpec


def tasks_by_node(cluster: Cluster, job: JobSpec, wanted: AllocateJob) -> list[int]:
    """Return the number of tasks of the job on each node of an allocation.

    Without `wanted.cores`, the tasks fill the free cores of the nodes in order.
    """
    nodes, free = wanted.nodes, cluster.free
    check_nodes(cluster, nodes)
    if wanted.cores:
        tasks = list(wanted.cores)
        check_tasks(cluster, job, nodes, tasks)
    else:
        tasks = filled_in_order(job, nodes, [free[node] for node in nodes])
    if job.placement == "one_node" and len(nodes) > 1:
        raise Rejection(
            "bad_allocation",
            f"job {job.job_id} has placement one_node; expected 1 node, got {len(nodes)}",
        )
    if job.placement == "whole_nodes":
        check_idle(cluster, nodes, f"job {job.job_id} has placement whole_nodes")
    return tasks


def check_power(power: NodePower, nodes: list[int], wake_on_allocation: bool) -> None:
    """Check that the power states of the nodes permit an allocation."""
    if power.are_on(nodes):
        return
    for node in nodes:
        state = power.state[node]
        if state == "switching_off" or not (state == "on" or wake_on_allocation):
            expected = "on, switching_on or sleeping" if wake_on_allocation else "on"
            raise Rejection(
                "wrong_power_state",
                f"allocate_job.nodes: node {node} is {state}; expected {expected}",
            )


def check_switch(cluster: Cluster, states: list[PowerState], wanted: SetNodePower) -> None:
    """Check a `set_node_power` decision."""
    node, state = wanted.node, wanted.state
    if not 0 <= node < len(states):
        raise _unknown_node("set_node_power.node", node, len(states))
    if cluster.kinds[cluster.group_of[node]].power_states is None:
        raise Rejection(
            "not_allowed", f"node {node} is always on: its node group has no power_states"
        )
    if state not in ("on", "sleeping"):
        raise Rejection(
            "wrong_power_state", f"set_node_power.state is {state}; expected on or sleeping"
        )
    before = "sleeping" if state == "on" else "on"
    if states[node] != before:
        raise Rejection(
            "wrong_power_state",
            f"node {node} is {states[node]}; expected {before} to switch it to {state}",
        )
    if cluster.free[node] < cluster.capacity[node]:
        raise Rejection(
            "node_busy", f"node {node} is allocated to a job; expected a node without allocation"
        )


def infeasibility(cluster: Cluster, job: JobSpec) -> str:
    """Return the reason why the job cannot run on the empty cluster; empty if it can.

    The reason is a predicate of the job.
    """
    if job.placement == "one_node" and job.cores > cluster.largest_node:
        return (
            f"requests {job.cores} cores on one node; the largest node has {cluster.largest_node}"
        )
    if job.cores > cluster.core_count:
        return f"requests {job.cores} cores; the platform has {cluster.core_count}"
    if job.max_energy_j < math.inf:
        least_j = _least_estimate_j(cluster.platform, job)
        if job.max_energy_j < least_j < math.inf:
            return (
                f"has max_energy_j {job.max_energy_j}; "
                f"the lowest energy estimate of any node is {least_j} J"
            )
    if job.request is None and cluster.site.is_plain:
        return ""
    return request_infeasibility(cluster.site, job)


def _least_estimate_j(platform: Platform, job: JobSpec) -> float:
    """Return the lowest energy estimate of the job, alone on one node, J."""
    return min(
        (
            energy_estimate_j(platform, group, job.cores, job.requested_s, 0)
            for group, nodes in enumerate(platform.nodes)
            if nodes.cores >= job.cores
        ),
        default=math.inf,
    )


def check_nodes(cluster: Cluster, nodes: list[int]) -> None:
    """Check that the nodes of an allocation exist and are distinct."""
    if not nodes:
        raise Rejection("bad_allocation", "allocate_job.nodes is empty; expected at least 1 node")
    count = len(cluster.free)
    if len(nodes) <= count:
        named = set(nodes)
        if len(named) == len(nodes) and named <= cluster.numbers:
            return
    else:  # one of the first is unknown or repeated; a client may name millions
        nodes = nodes[: count + 1]
    if min(nodes) < 0 or max(nodes) >= count:
        unknown = next(node for node in nodes if not 0 <= node < count)
        raise _unknown_node("allocate_job.nodes", unknown, count)
    repeated, times = Counter(nodes).most_common(1)[0]
    raise Rejection(
        "bad_allocation",
        f"node {repeated} occurs {times} times in allocate_job.nodes; expected distinct nodes",
    )


def _unknown_node(field: str, node: int, count: int) -> Rejection:
    return Rejection(
        "unknown_node", f"{field}: node {node} does not exist; expected 0 to {count - 1}"
    )


def filled_in_order(job: JobSpec, nodes: list[int], room: list[int]) -> list[int]:
    """Return the number of tasks on each node if they fill the nodes in order.

    Args:
        room: number of tasks that the job may have on each of `nodes`; it becomes the result.
    """
    tasks = room
    if not all(tasks):
        node = nodes[tasks.index(0)]
        raise Rejection("node_busy", f"node {node} has no free core; expected at least 1")
    excess = sum(tasks) - job.cores
    if excess < 0:
        raise Rejection(
            "bad_allocation",
            f"job {job.job_id} requests {job.cores} cores; free on the nodes: {sum(tasks)}",
        )
    tasks[-1] -= excess
    if tasks[-1] < 1:
        raise Rejection(
            "bad_allocation",
            f"job {job.job_id} requests {job.cores} cores; it fits without node {nodes[-1]}",
        )
    return tasks


def check_tasks(cluster: Cluster, job: JobSpec, nodes: list[int], tasks: list[int]) -> None:
    """Check the numbers of tasks that an allocation states."""
    if len(tasks) != len(nodes):
        raise Rejection(
            "bad_allocation",
            f"allocate_job.cores has {len(tasks)} entries; expected {len(nodes)}, one per node",
        )
    if min(tasks) < 1:
        raise Rejection(
            "bad_allocation",
            f"allocate_job.cores contains {min(tasks)}; expected at least 1 core per node",
        )
    if sum(tasks) != job.cores:
        raise Rejection(
            "bad_allocation",
            f"allocate_job.cores adds up to {sum(tasks)}; job {job.job_id} requests {job.cores}",
        )
    for node, wanted in zip(nodes, tasks, strict=True):
        if wanted > cluster.free[node]:
            raise Rejection(
                "node_busy",
                f"allocate_job.cores takes {wanted} of node {node}; free: {cluster.free[node]}",
            )


def check_idle(cluster: Cluster, nodes: list[int], why: str) -> None:
    """Check that no job holds cores of the nodes."""
    for node in nodes:
        if cluster.free[node] < cluster.capacity[node]:
            raise Rejection("node_busy", f"node {node} has an allocation; {why}")
