"""Whether a job may have the nodes a scheduler wants for it, and a node may be switched."""

from __future__ import annotations

import math

from hpcosim_protocol import AllocateJob, Platform, PowerState, SetNodePower
from hpcosim_server.errors import Rejection
from hpcosim_server.physics.cluster import Cluster
from hpcosim_server.physics.node_power import NodePower
from hpcosim_workloads.table import JobSpec


def tasks_by_node(cluster: Cluster, job: JobSpec, wanted: AllocateJob) -> list[int]:
    """Return how many tasks of the job run on each node wanted.

    Raises:
        Rejection: the nodes can't be given to the job, or are not what it asks for.
    """
    nodes = wanted.nodes
    _check_nodes(cluster, nodes)
    if wanted.cores:
        tasks = list(wanted.cores)
        _check_tasks(cluster, job, nodes, tasks)
    else:
        tasks = _filled_in_order(cluster, job, nodes)
    if job.placement == "one_node" and len(nodes) > 1:
        raise Rejection(
            "bad_allocation", f"job {job.job_id} asks for one node; {len(nodes)} were given"
        )
    if job.placement == "whole_nodes":
        _check_idle(cluster, nodes)
    return tasks


def check_power(power: NodePower, nodes: list[int], wake_on_allocation: bool) -> None:
    """Check that a job can run on these nodes as they are, or wait for them to be switched on.

    Raises:
        Rejection: a node is not on, and the job can't wait for it.
    """
    if power.are_on(nodes):
        return
    for node in nodes:
        state = power.state[node]
        if state == "switching_off" or not (state == "on" or wake_on_allocation):
            raise Rejection("wrong_power_state", f"node {node} is {state}, not on")


def check_switch(cluster: Cluster, states: list[PowerState], wanted: SetNodePower) -> None:
    """Check that a node may be switched as wanted.

    Raises:
        Rejection: it may not; says why.
    """
    node, state = wanted.node, wanted.state
    if not 0 <= node < len(states):
        raise Rejection(
            "unknown_node", f"there is no node {node}; they go from 0 to {len(states) - 1}"
        )
    if cluster.kinds[cluster.group_of[node]].power_states is None:
        raise Rejection("not_allowed", f"node {node} has no power states: it is always on")
    if state not in ("on", "sleeping"):
        raise Rejection("wrong_power_state", f"a node is brought to on or sleeping, not {state}")
    if states[node] != ("sleeping" if state == "on" else "on"):
        raise Rejection(
            "wrong_power_state", f"node {node} is {states[node]} and can't go to {state}"
        )
    if cluster.free[node] < cluster.capacity[node]:
        raise Rejection("node_busy", f"node {node} runs a job or is held for one")


def impossible(cluster: Cluster, job: JobSpec) -> str:
    """Return why the job could not run even on an empty cluster; empty: it could."""
    if job.placement == "one_node" and job.cores > cluster.largest_node:
        return (
            f"asks for {job.cores} cores on one node; the largest node has {cluster.largest_node}"
        )
    if job.cores > cluster.core_count:
        return f"asks for {job.cores} cores; the platform has {cluster.core_count}"
    if job.max_energy_j < math.inf:
        least_j = _least_estimate_j(cluster.platform, job)
        if job.max_energy_j < least_j < math.inf:
            return (
                f"may cost {job.max_energy_j} J; alone on the best node the estimate is {least_j} J"
            )
    return ""


def _least_estimate_j(platform: Platform, job: JobSpec) -> float:
    """Return the least energy estimated for the job alone on a node; infinity: none holds it."""
    return min(
        (
            platform.energy_estimate_j(group, job.cores, job.requested_s, 0)
            for group, nodes in enumerate(platform.nodes)
            if nodes.cores >= job.cores
        ),
        default=math.inf,
    )


def _check_nodes(cluster: Cluster, nodes: list[int]) -> None:
    if not nodes:
        raise Rejection("bad_allocation", "no nodes were given")
    count = len(cluster.free)
    if min(nodes) < 0 or max(nodes) >= count:
        stranger = next(node for node in nodes if not 0 <= node < count)
        raise Rejection(
            "unknown_node", f"there is no node {stranger}; they go from 0 to {count - 1}"
        )
    if len(set(nodes)) < len(nodes):
        raise Rejection("bad_allocation", "a node was given twice")


def _filled_in_order(cluster: Cluster, job: JobSpec, nodes: list[int]) -> list[int]:
    tasks = [cluster.free[node] for node in nodes]
    if not all(tasks):
        node = nodes[tasks.index(0)]
        raise Rejection("node_busy", f"node {node} has no free core")
    excess = sum(tasks) - job.cores
    if excess < 0:
        raise Rejection(
            "bad_allocation",
            f"job {job.job_id} asks for {job.cores} cores; the nodes have {sum(tasks)} free",
        )
    tasks[-1] -= excess
    if tasks[-1] < 1:
        raise Rejection(
            "bad_allocation",
            f"job {job.job_id} asks for {job.cores} cores; node {nodes[-1]} is not needed",
        )
    return tasks


def _check_tasks(cluster: Cluster, job: JobSpec, nodes: list[int], tasks: list[int]) -> None:
    if len(tasks) != len(nodes):
        raise Rejection("bad_allocation", f"{len(nodes)} nodes but {len(tasks)} numbers of cores")
    if min(tasks) < 1:
        raise Rejection("bad_allocation", "a node was given with no core")
    if sum(tasks) != job.cores:
        raise Rejection(
            "bad_allocation",
            f"job {job.job_id} asks for {job.cores} cores; {sum(tasks)} were given",
        )
    for node, wanted in zip(nodes, tasks, strict=True):
        if wanted > cluster.free[node]:
            raise Rejection(
                "node_busy", f"node {node} has {cluster.free[node]} free cores, not {wanted}"
            )


def _check_idle(cluster: Cluster, nodes: list[int]) -> None:
    for node in nodes:
        if cluster.free[node] < cluster.capacity[node]:
            raise Rejection("node_busy", f"node {node} is not idle as a whole")
