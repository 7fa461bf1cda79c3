"""Policies that pack jobs with GPUs on nodes.

Each policy considers the queue in submission order until a job does not fit. A job goes to the
node, and to the GPUs, that the rule prefers; of equal ones to the lowest-numbered. A job that fits
on no single node of the cluster fills nodes in ascending order. If the GPUs that the rule prefers
do not meet the request, for their type or because the job names several, the server chooses others.

The rules are those of Weng et al. 2023 (Beware of Fragmentation: Scheduling GPU-Sharing Workloads
with Fragmentation Gradient Descent, USENIX ATC), section 6.1. `fragmentation` has their own policy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Ints, Job
from hpcosim_client.view import Policy, View
from hpcosim_protocol.resources import WHOLE_DEVICE
from hpcosim_schedulers.heuristics.gpu_nodes import (
    GpuNeed,
    GpuNodes,
    devices_of,
    fitting,
    fullest,
    gpu_need,
    gpu_nodes,
)
from hpcosim_schedulers.heuristics.list_scheduling import start_in_order
from hpcosim_schedulers.heuristics.reasons import explain_queue


class GpuPlace(NamedTuple):
    """A place for a job.

    Attributes:
        node: number of the node.
        columns: int64[n], the GPUs, as columns of `GpuNodes.gpus`.
    """

    node: int
    columns: Ints


Rule = Callable[[View, Job, GpuNodes, Ints], GpuPlace]
"""Chooses one of the nodes on which a job fits, and its GPUs there."""


def packed(rule: Rule) -> Policy:
    """Return the policy that places each job by a rule; see the module."""

    def start(view: View, job: Job) -> bool:
        here = gpu_nodes(view.nodes)
        nodes = fitting(job, here)
        if not len(nodes):
            return not view.nodes.suits(job).any() and view.start(job)
        node, columns = rule(view, job, here, nodes)
        devices = devices_of(here, node, columns)
        if devices and view.start(job, [node], cores=[job.cores], gres=[devices]):
            return True
        return view.start(job, [node], cores=[job.cores])  # the server chooses devices

    def decide(view: View) -> None:
        start_in_order(view, start)
        explain_queue(view)

    return decide


def gpu_random() -> Policy:
    """Return the policy that takes any node and any of its GPUs with room, at random."""
    return packed(_any)


def gpu_packing() -> Policy:
    """Return the policy that fills GPUs in use before idle ones (Xiao et al. 2018, Gandiva).

    It prefers

    1. nodes where the job only needs GPUs in use, the fullest GPU first, in steps of a tenth;
    2. then other nodes with GPUs in use;
    3. then nodes whose GPUs are all idle, the fewest GPUs first.

    Cores do not matter. A job that needs no GPU goes to the lowest-numbered node. These are the
    whole-number scores of the program of Weng et al. (kubernetes-scheduler-simulator,
    `GpuPackingScore`).
    """
    return packed(_fewest_idle)


def best_fit() -> Policy:
    """Return the policy that takes the node with the least left after the job.

    What is left is the weighted sum of cores and GPUs, both relative to the largest node and with
    weight 0.5; see Protean (Hadary et al. 2020).
    """
    return packed(_least_left)


def _any(view: View, job: Job, here: GpuNodes, nodes: Ints) -> GpuPlace:
    node, need = int(view.rng.choice(nodes)), gpu_need(job)
    room = np.flatnonzero(here.gpus[node] >= max(need.part, 1))
    return GpuPlace(node, np.sort(view.rng.permutation(room)[: need.gpus]))


def _fewest_idle(view: View, job: Job, here: GpuNodes, nodes: Ints) -> GpuPlace:
    need, gpus = gpu_need(job), here.gpus[nodes]
    if need.total == 0:
        return GpuPlace(int(nodes[0]), filling(need, here, int(nodes[0])))
    in_use = (gpus >= need.part) & (gpus < WHOLE_DEVICE)
    # Tenths of the fullest GPU in use with room; 10: the job needs idle GPUs.
    rank = np.where(in_use, gpus, WHOLE_DEVICE).min(axis=1) // (WHOLE_DEVICE // 10)
    idle = (gpus == here.total[nodes]).all(axis=1)
    rank[idle] = 10 + np.count_nonzero(gpus[idle], axis=1)
    node = int(nodes[rank.argmin()])
    return GpuPlace(node, filling(need, here, node))


def _least_left(view: View, job: Job, here: GpuNodes, nodes: Ints) -> GpuPlace:
    need = gpu_need(job)
    cores = (here.cores[nodes] - job.cores) / here.nodes.largest
    most = max(int(here.total.sum(axis=1).max(initial=0)), 1)
    gpus = (here.gpus[nodes].sum(axis=1) - need.total) / most
    node = int(nodes[np.argmin(0.5 * cores + 0.5 * gpus)])
    return GpuPlace(node, filling(need, here, node))


def filling(need: GpuNeed, here: GpuNodes, node: int) -> Ints:
    """Return the GPUs of a node for a job: the fullest with room, or the lowest idle ones.

    Empty for shares of several GPUs: the server fills them in this way.
    """
    gpus = here.gpus[node]
    if need.one_share:
        return fullest(gpus[np.newaxis], need.part)
    if 0 < need.part < WHOLE_DEVICE:
        return np.array([], dtype=np.int64)
    return np.flatnonzero(gpus == WHOLE_DEVICE)[: need.gpus]
