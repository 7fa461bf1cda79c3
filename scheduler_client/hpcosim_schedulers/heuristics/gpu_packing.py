"""Policies that pack jobs with GPUs on nodes.

Each policy considers the queue in submission order until a job does not fit. A job goes to the
node, and to the GPUs, that the rule prefers; of equal ones to the lowest-numbered. A job that fits
on no single node of the cluster fills nodes in ascending order. If the GPUs that the rule prefers
do not meet the request, for their type or because the job names several, the server chooses others.

The rules are those of Weng et al. 2023 (Beware of Fragmentation: Scheduling GPU-Sharing Workloads
with Fragmentation Gradient Descent, USENIX ATC), section 6.1, and their own policy,
fragmentation gradient descent: jobs go where the least GPU capacity becomes unusable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Bools, Floats, Ints, Job
from hpcosim_client.nodes import NodePool
from hpcosim_client.view import Policy, View
from hpcosim_protocol.resources import WHOLE_DEVICE, tasks_on, thousandths
from hpcosim_schedulers.heuristics.list_scheduling import explain_queue, start_in_order

GPU = "gpu"
"""Name of the resource; devices of any type count."""


ClassKey = tuple[int, int, int, tuple[int, ...]]
"""Cores, thousandths of each GPU, number of GPUs, and identities of the sets of nodes."""


class GpuNeed(NamedTuple):
    """What a job needs of the GPUs of its node."""

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
    """Return the numbers of GPUs of a node by name with type."""
    wanted = set(here.slots[node, columns].tolist())
    found: dict[str, list[int]] = {}
    for name, slots in here.nodes.slots.devices_of(node).items():
        numbers = [number for number, slot in enumerate(slots.tolist()) if slot in wanted]
        if numbers:
            found[name] = numbers
    return found


class GpuPlace(NamedTuple):
    """A place for a job."""

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


class JobMix:
    """Classes of jobs with equal demands, and how many jobs each has."""

    def __init__(self) -> None:
        self.jobs: dict[ClassKey, int] = {}
        self._nodes: dict[ClassKey, Bools | None] = {}

    def add(self, job: Job) -> None:
        """Count a job."""
        key = class_of(job)
        self.jobs[key] = self.jobs.get(key, 0) + 1
        if job.demand is not None and key not in self._nodes:
            masks = [choice.nodes for choice in job.demand.choices]
            self._nodes[key] = np.any(masks, axis=0) if masks else None

    def classes(self, nodes: int) -> MixedClasses:
        """Return the classes that need GPUs as arrays."""
        keys = [key for key in self.jobs if key[1] > 0]
        usable = np.ones((len(keys), nodes), dtype=np.bool_)
        for row, key in enumerate(keys):
            mask = self._nodes.get(key)
            if mask is not None:
                usable[row] = mask
        parts, part = np.unique([key[1] for key in keys], return_inverse=True)
        return MixedClasses(
            np.array([key[0] for key in keys], dtype=np.int64),
            parts.astype(np.int64),
            part,
            np.array([key[2] for key in keys], dtype=np.int64),
            usable,
            np.array([self.jobs[key] for key in keys]) / max(sum(self.jobs.values()), 1),
        )


class MixedClasses(NamedTuple):
    """Classes of jobs that need GPUs.

    Attributes:
        cores: int64[classes].
        parts: int64[parts], the different thousandths of a GPU that the classes need.
        part: int64[classes], index in `parts`.
        gpus: int64[classes], number of GPUs.
        nodes: bool[classes, nodes], the nodes that the class may use.
        weight: float64[classes], share of all jobs.
    """

    cores: Ints
    parts: Ints
    part: Ints
    gpus: Ints
    nodes: Bools
    weight: Floats

    def fragmentation(self, nodes: Ints, cores: Ints, gpus: Ints) -> Floats:
        """Return the fragmentation of nodes, thousandths of a GPU.

        Args:
            nodes: int64[n], node numbers.
            cores: int64[n], free cores.
            gpus: int64[n, GPUs], free thousandths.
        """
        roomy = gpus[np.newaxis] >= self.parts[:, np.newaxis, np.newaxis]
        usable = np.where(roomy, gpus, 0).sum(axis=2)
        fits = cores >= self.cores[:, np.newaxis]
        several = (self.parts[self.part] < WHOLE_DEVICE) & (self.gpus > 1)
        parts = gpus // self.parts[:, np.newaxis, np.newaxis] if several.any() else roomy
        room = parts.sum(axis=2)
        fits &= room[self.part] >= self.gpus[:, np.newaxis]
        fits &= self.nodes[:, nodes]
        used = np.einsum("c,cn,cn->n", self.weight, fits, usable[self.part])
        found: Floats = gpus.sum(axis=1) - used
        return found


class _Known(NamedTuple):
    """Increases that were calculated before.

    Attributes:
        cores: int64[nodes], free cores then.
        gpus: int64[nodes, GPUs], free thousandths then.
        cost: float64[nodes], infinity where the GPUs have no room; the least is the best.
        column: int64[nodes], the GPU of a job with a share.
    """

    cores: Ints
    gpus: Ints
    cost: Floats
    column: Ints


def fgd(mix: JobMix | None = None, *, exact: bool = False) -> Policy:
    """Return the policy of fragmentation gradient descent; see the module.

    Args:
        mix: the mix of jobs, which stays as it is; None: all jobs that have arrived so far.
        exact: whether increases are compared exactly; False: as in the program of the paper.
    """
    gradient = _Gradient(mix, exact)
    policy = packed(gradient.choose)

    def decide(view: View) -> None:
        if mix is None:
            gradient.learn(view.arrived)
        policy(view)

    return decide


class _Gradient:
    """The rule of fragmentation gradient descent."""

    def __init__(self, mix: JobMix | None, exact: bool) -> None:
        self._exact = exact
        self._mix = JobMix() if mix is None else mix
        self._classes: MixedClasses | None = None
        self._known: dict[ClassKey, _Known] = {}

    def learn(self, jobs: list[Job]) -> None:
        """Add jobs to the mix."""
        for job in jobs:
            self._mix.add(job)
        if jobs:
            self._classes = None
            self._known.clear()

    def choose(self, view: View, job: Job, here: GpuNodes, nodes: Ints) -> GpuPlace:
        """Return the place with the least increase of fragmentation."""
        if self._classes is None:
            self._classes = self._mix.classes(len(here.cores))
        known = self._updated(self._classes, job, here)
        costs, need = known.cost[nodes], gpu_need(job)
        node = int(nodes[costs.argmin()])
        if need.one_share:
            return GpuPlace(node, known.column[node : node + 1])
        return GpuPlace(node, filling(need, here, node))

    def _updated(self, classes: MixedClasses, job: Job, here: GpuNodes) -> _Known:
        """Return the increases for a job, calculated anew for nodes that have changed."""
        key = class_of(job)
        known = self._known.get(key)
        if known is None:
            changed = np.arange(len(here.cores))
            none = np.full(len(changed), np.inf)
            known = _Known(here.cores.copy(), here.gpus.copy(), none, np.zeros_like(changed))
            self._known[key] = known
        else:
            differs = (known.cores != here.cores) | (known.gpus != here.gpus).any(axis=1)
            changed = np.flatnonzero(differs)
            known.cores[changed], known.gpus[changed] = here.cores[changed], here.gpus[changed]
        if len(changed):
            found = _increases(classes, job, changed, here.cores[changed], here.gpus[changed])
            costs = _costs(found, exact=self._exact)
            known.cost[changed], known.column[changed] = costs.min(axis=0), costs.argmin(axis=0)
        return known


def class_of(job: Job) -> ClassKey:
    """Return the class of a job."""
    need = gpu_need(job)
    choices = () if job.demand is None else job.demand.choices
    return (job.cores, need.part, need.gpus, tuple(id(choice.nodes) for choice in choices))


def _costs(increases: Floats, *, exact: bool) -> Floats:
    """Return what is minimized instead of increases; infinity stays infinity."""
    if exact:
        return increases
    with np.errstate(over="ignore"):
        scores = np.floor(100.0 / (1.0 + np.exp(increases / 1000.0)))
    return np.where(np.isinf(increases), np.inf, -scores)


def _increases(classes: MixedClasses, job: Job, nodes: Ints, cores: Ints, gpus: Ints) -> Floats:
    """Return by how much a job increases the fragmentation of nodes."""
    need = gpu_need(job)
    before = classes.fragmentation(nodes, cores, gpus)
    increases = np.full((gpus.shape[1] if need.one_share else 1, len(nodes)), np.inf)
    for option, increase in enumerate(increases):
        after = gpus.copy()
        if need.one_share:
            rows = gpus[:, option] >= need.part
            after[:, option] -= need.part
        elif 0 < need.part < WHOLE_DEVICE:
            rows = _take_parts(after, need)
        else:
            idle = gpus == WHOLE_DEVICE
            rows = idle.sum(axis=1) >= need.gpus
            after[idle & (idle.cumsum(axis=1) <= need.gpus)] -= need.part
        rows &= cores >= job.cores
        left = cores[rows] - job.cores
        increase[rows] = classes.fragmentation(nodes[rows], left, after[rows]) - before[rows]
    return increases


def _take_parts(gpus: Ints, need: GpuNeed) -> Bools:
    """Take shares from the fullest GPUs of nodes; return bool[n]: whether they have room."""
    rows = np.ones(len(gpus), dtype=np.bool_)
    for _ in range(need.gpus):
        rows &= (gpus >= need.part).any(axis=1)
        at = rows.nonzero()[0]
        gpus[at, fullest(gpus[at], need.part)] -= need.part
    return rows
