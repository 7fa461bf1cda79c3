"""The nodes of jobs with `--gpus`: devices of the whole job decide with the cores.

Slurm takes further nodes until a job has the devices that it needs on all nodes together, and
leaves out nodes without such devices (`gres_per_job` in select/cons_tres).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from msgspec import structs

from hpcosim_client.job import Ints
from hpcosim_client.placing import Placing, allocation_of, devices_of_job
from hpcosim_schedulers.slurm.node_order import NodeOrder
from hpcosim_schedulers.slurm.select import choose_nodes, least_nodes, tasks_on_nodes


def choose_for_devices(placing: Placing, cores: Ints, order: NodeOrder) -> Ints | None:
    """Return the nodes of a job with `gres_per_job`, in the order in which it fills them.

    They are the fewest that `choose_nodes` returns and that have the devices. If the limits of
    their number prevent that, nodes with few devices are left out step by step.

    Args:
        placing: the job.
        cores: int64[nodes], cores offered to it on each node; 0: none.
        order: what the choice prefers.

    Returns:
        int64[n], node numbers; None: what is offered is not sufficient.
    """
    job, request = placing.job, placing.demand.request
    devices = devices_of_job(placing.demand, placing.amounts, placing.slots)
    most = job.cores // request.cores_per_task
    if job.placement == "one_node":
        most = 1
    most = min(most, request.nodes_max or most)
    fewest = np.minimum.reduce([free for free, _ in devices])
    required = np.isin(np.arange(len(cores)), request.required_nodes)
    for few in [0, *np.unique(fewest[(cores > 0) & (fewest > 0)]).tolist()]:
        left = np.where((fewest > few) | required, cores, 0)
        usable = left > 0
        least = least_nodes(job, placing.demand)
        for free, needed in devices:
            best = np.sort(free[usable])[::-1].cumsum()
            least = max(least, int(best.searchsorted(needed)) + 1)
        for count in range(least, min(most, int(usable.sum())) + 1):
            nodes = _chosen(placing, left, order, count)
            if nodes is not None:
                return nodes
    return None


def _chosen(placing: Placing, cores: Ints, order: NodeOrder, count: int) -> Ints | None:
    """Return at least `count` nodes with the devices of a job; None: those have too few."""
    job, demand, choice = placing.job, placing.demand, placing.choice
    if int(cores.sum()) < job.cores:
        return None
    larger = replace(demand, request=structs.replace(demand.request, nodes_min=count))
    nodes = choose_nodes(job, larger, choice, cores, order)
    if nodes is None:
        return None
    tasks = tasks_on_nodes(job, demand.request.cores_per_task, cores[nodes])
    return nodes if allocation_of(placing, nodes, tasks) is not None else None
