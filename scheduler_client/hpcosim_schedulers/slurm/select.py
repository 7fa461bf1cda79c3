"""The nodes that a job gets, as `select/cons_tres` of Slurm chooses them.

Sources: slurm.conf(5), `SelectTypeParameters` and `TopologyPlugin`; topology.conf(5); the topology
guide (https://slurm.schedmd.com/topology.html); `_eval_nodes` and `_eval_nodes_topo` of Slurm's
select plugins. Placements of a real Slurm 22.05 are compared in docs/explanation/slurm-policy.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hpcosim_client.demand import Demand, NodeChoice
from hpcosim_client.job import Ints, Job
from hpcosim_schedulers.slurm.node_order import Need, NodeOrder, take_alike


def choose_nodes(
    job: Job, demand: Demand, choice: NodeChoice, cores: Ints, order: NodeOrder
) -> Ints | None:
    """Return the nodes that a job gets, in the order in which it fills them.

    Args:
        job: a job.
        demand: what it demands.
        choice: the nodes that it may use.
        cores: int64[nodes], cores offered to it on each node; 0: none.
        order: what the choice prefers.

    If the greatest number of nodes prevents the choice, the nodes with the fewest cores are left
    out step by step, as Slurm does against a knapsack problem.

    Returns:
        int64[n], node numbers; None: the offered cores are not sufficient.
    """
    nodes = _choose(job, demand, choice, cores, order)
    if nodes is not None or not demand.request.nodes_max:
        return nodes
    required = list(demand.request.required_nodes)
    for few in np.unique(cores[cores > 0]).tolist():
        larger = np.where(cores > few, cores, 0)
        larger[required] = cores[required]
        if larger.sum() < job.cores:
            return None
        nodes = _choose(job, demand, choice, larger, order)
        if nodes is not None:
            return nodes
    return None


def _choose(
    job: Job, demand: Demand, choice: NodeChoice, cores: Ints, order: NodeOrder
) -> Ints | None:
    """Return the nodes of the first try of `choose_nodes`."""
    request = demand.request
    tasks = job.cores // request.cores_per_task
    least = least_nodes(job, demand)
    need = Need(job.cores, min(max(least, request.nodes_max), tasks), request.nodes_max or tasks)
    chosen = _stated(demand, choice, cores, order, need)
    if chosen is None:
        return None
    left = cores.copy()
    left[chosen] = 0
    parts = [chosen]
    candidates = left.nonzero()[0]
    for alike in _by_weight(candidates, order):
        if need.met:
            break
        begun = order.leaves_of(np.concatenate(parts))
        parts += take_alike(alike, left, order, need, begun)
    nodes: Ints = np.concatenate(parts)
    return nodes if need.cores <= 0 and len(nodes) >= least else None


def _by_weight(nodes: Ints, order: NodeOrder) -> Iterator[Ints]:
    """Yield nodes of equal weight, the least weight first."""
    if order.weight is None:
        yield nodes
        return
    weights = order.weight[nodes]
    for weight in np.unique(weights).tolist():
        yield nodes[weights == weight]


def least_nodes(job: Job, demand: Demand) -> int:
    """Return the least number of nodes of a job, with that which `--ntasks-per-node` implies."""
    request = demand.request
    least = max(request.nodes_min, len(request.required_nodes), 1)
    if request.tasks_per_node:
        tasks = job.cores // request.cores_per_task
        least = max(least, -(-tasks // request.tasks_per_node))
    return least


def _stated(
    demand: Demand, choice: NodeChoice, cores: Ints, order: NodeOrder, need: Need
) -> Ints | None:
    """Return required nodes and those of counted features; None: some are not offered."""
    chosen: Ints = np.array(sorted(demand.request.required_nodes), dtype=np.int64)
    if len(chosen):
        if (cores[chosen] == 0).any():
            return None
        need.cores -= int(cores[chosen].sum())
        need.nodes -= len(chosen)
        need.most -= len(chosen)
    for nodes, count in choice.quotas:
        left = np.where(nodes, cores, 0)
        missing = count - int(nodes[chosen].sum())
        left[chosen] = 0
        part = Need(0, missing, max(missing, 0))
        found = np.concatenate(
            [chosen[:0], *take_alike(left.nonzero()[0], left, order, part, None)]
        )
        if part.nodes > 0:
            return None
        need.cores -= int(cores[found].sum())
        need.nodes -= len(found)
        need.most -= len(found)
        chosen = np.concatenate([chosen, found])
    return chosen


def tasks_on_nodes(job: Job, cores_per_task: int, cores: Ints) -> Ints:
    """Return the cores of a job on each of its nodes: a task on each, the others fill in order.

    Args:
        job: a job.
        cores_per_task: cores of a task.
        cores: int64[n], cores offered on each of its nodes.
    """
    spare = cores - cores_per_task
    before = spare.cumsum() - spare
    rest = job.cores - cores_per_task * len(cores)
    filled: Ints = cores_per_task + np.clip(rest - before, 0, spare)
    return filled


def usable_cores(demand: Demand, job: Job, cores: Ints) -> Ints:
    """Return the offered cores without nodes that offer less than `--ntasks-per-node` tasks.

    Slurm 22.05 starts jobs with `--ntasks-per-node` only on nodes that run as many tasks.
    """
    limit = demand.request.tasks_per_node
    if limit <= 1:
        return cores
    least = min(limit * demand.request.cores_per_task, job.cores)
    return np.where(cores >= least, cores, 0)
