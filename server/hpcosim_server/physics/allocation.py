"""Whether a job may have the nodes a scheduler wants for it."""

from __future__ import annotations

import math

from hpcosim_protocol import (
    AllocateJob,
    Platform,
    PowerState,
    RejectionCode,
    SetNodePower,
    energy_estimate_j,
)
from hpcosim_server.physics.cluster import Cluster
from hpcosim_workloads.table import JobSpec


class Refusal(Exception):  # noqa: N818 - an answer, not an error
    """A decision can't be carried out.

    Args:
        code: the reason, for programs.
        reason: the reason, for people.
    """

    def __init__(self, code: RejectionCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


def tasks_by_node(cluster: Cluster, job: JobSpec, wanted: AllocateJob) -> list[int]:
    """Return how many tasks of the job run on each node wanted.

    Raises:
        Refusal: the nodes can't be had, or are not what the job asks for.
    """
    nodes = wanted.nodes
    _check_nodes(cluster, nodes)
    if wanted.cores:
        tasks = list(wanted.cores)
        _check_tasks(cluster, job, nodes, tasks)
    else:
        tasks = _filled_in_order(cluster, job, nodes)
    if job.placement == "one_node" and len(nodes) > 1:
        raise Refusal(
            "bad_allocation", f"job {job.job_id} asks for one node; {len(nodes)} were given"
        )
    if job.placement == "whole_nodes":
        _check_idle(cluster, nodes)
    return tasks


def check_power(states: list[PowerState], nodes: list[int], wake_on_allocation: bool) -> bool:
    """Return whether all these nodes are on.

    Raises:
        Refusal: one is not, and the job can't wait for it.
    """
    off = [node for node in nodes if states[node] != "on"]
    for node in off:
        if states[node] == "switching_off" or not wake_on_allocation:
            raise Refusal("wrong_power_state", f"node {node} is {states[node]}, not on")
    return not off


def check_switch(cluster: Cluster, states: list[PowerState], wanted: SetNodePower) -> None:
    """Make sure that a node may be switched as wanted.

    Raises:
        Refusal: it may not.
    """
    node, state = wanted.node, wanted.state
    if not 0 <= node < len(states):
        raise Refusal(
            "unknown_node", f"there is no node {node}; they go from 0 to {len(states) - 1}"
        )
    if cluster.kinds[cluster.group_of[node]].power_states is None:
        raise Refusal("not_allowed", f"node {node} has no power states: it is always on")
    if state not in ("on", "sleeping"):
        raise Refusal("wrong_power_state", f"a node is brought to on or sleeping, not {state}")
    if states[node] != ("sleeping" if state == "on" else "on"):
        raise Refusal("wrong_power_state", f"node {node} is {states[node]} and can't go to {state}")
    if cluster.free[node] < cluster.capacity[node]:
        raise Refusal("node_busy", f"node {node} runs a job or is held for one")


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
            energy_estimate_j(platform, group, job.cores, job.requested_s, 0)
            for group, nodes in enumerate(platform.nodes)
            if nodes.cores >= job.cores
        ),
        default=math.inf,
    )


def _check_nodes(cluster: Cluster, nodes: list[int]) -> None:
    if not nodes:
        raise Refusal("bad_allocation", "no nodes were given")
    count = len(cluster.free)
    if min(nodes) < 0 or max(nodes) >= count:
        stranger = next(node for node in nodes if not 0 <= node < count)
        raise Refusal("unknown_node", f"there is no node {stranger}; they go from 0 to {count - 1}")
    if len(set(nodes)) < len(nodes):
        raise Refusal("bad_allocation", "a node was given twice")


def _filled_in_order(cluster: Cluster, job: JobSpec, nodes: list[int]) -> list[int]:
    tasks = [cluster.free[node] for node in nodes]
    if not all(tasks):
        node = nodes[tasks.index(0)]
        raise Refusal("node_busy", f"node {node} has no free core")
    excess = sum(tasks) - job.cores
    if excess < 0:
        raise Refusal(
            "bad_allocation",
            f"job {job.job_id} asks for {job.cores} cores; the nodes have {sum(tasks)} free",
        )
    tasks[-1] -= excess
    if tasks[-1] < 1:
        raise Refusal(
            "bad_allocation",
            f"job {job.job_id} asks for {job.cores} cores; node {nodes[-1]} is not needed",
        )
    return tasks


def _check_tasks(cluster: Cluster, job: JobSpec, nodes: list[int], tasks: list[int]) -> None:
    if len(tasks) != len(nodes):
        raise Refusal("bad_allocation", f"{len(nodes)} nodes but {len(tasks)} numbers of cores")
    if min(tasks) < 1:
        raise Refusal("bad_allocation", "a node was given with no core")
    if sum(tasks) != job.cores:
        raise Refusal(
            "bad_allocation",
            f"job {job.job_id} asks for {job.cores} cores; {sum(tasks)} were given",
        )
    for node, wanted in zip(nodes, tasks, strict=True):
        if wanted > cluster.free[node]:
            raise Refusal(
                "node_busy", f"node {node} has {cluster.free[node]} free cores, not {wanted}"
            )


def _check_idle(cluster: Cluster, nodes: list[int]) -> None:
    for node in nodes:
        if cluster.free[node] < cluster.capacity[node]:
            raise Refusal("node_busy", f"node {node} is not idle as a whole")
