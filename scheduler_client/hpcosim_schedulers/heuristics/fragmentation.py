"""Fragmentation gradient descent: jobs go where the least GPU capacity becomes unusable.

Weng et al. 2023 (Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent, USENIX ATC), sections 3 and 4. The mix of jobs has classes with equal demands of
cores, GPUs and nodes, each with a share of all jobs. The fragmentation of a node for a class is

- the free part of all its GPUs, if a job of the class does not fit on the node or needs no GPU;
- otherwise the free part of those GPUs that have less than the job needs of each.

The fragmentation of a node is the mean over the mix. A job goes to the node, and a job with a share
to the GPU, with the least increase.

The program of the paper (kubernetes-scheduler-simulator, `FGDScore`) compares increases i in
thousandths by the score floor(100 / (1 + exp(i / 1000))). So increases that differ by less than
about 40 thousandths are equal. Of equal nodes and GPUs it takes the first. This is the default, as
it allocates more than exact increases do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Bools, Floats, Ints, Job
from hpcosim_client.view import Policy, View
from hpcosim_protocol.resources import WHOLE_DEVICE
from hpcosim_schedulers.heuristics.gpu_nodes import GpuNeed, GpuNodes, fullest, gpu_need
from hpcosim_schedulers.heuristics.gpu_packing import GpuPlace, filling, packed

ClassKey = tuple[int, int, int, tuple[int, ...]]
"""Cores, thousandths of each GPU, number of GPUs, and identities of the sets of nodes."""


class JobMix:
    """Classes of jobs with equal demands, and how many jobs each has.

    Attributes:
        jobs: number of jobs of each class.
    """

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
        """Return the classes that need GPUs as arrays.

        Args:
            nodes: number of nodes of the cluster.
        """
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
    """The rule of fragmentation gradient descent.

    Args:
        mix: the mix of jobs; None: `learn` collects it.
        exact: see `fgd`.
    """

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
    """Return by how much a job increases the fragmentation of nodes.

    Args:
        classes: the mix.
        job: the job.
        nodes: int64[n], node numbers.
        cores: int64[n], free cores.
        gpus: int64[n, GPUs], free thousandths.

    Returns:
        float64[options, n]: an option for each GPU if the job needs a share, else one; infinity
        where the node has too little.
    """
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
    """Take several shares from the fullest GPUs of nodes; return bool[n]: whether they have room.

    Args:
        gpus: int64[n, GPUs], free thousandths, which this changes.
        need: the shares.
    """
    rows = np.ones(len(gpus), dtype=np.bool_)
    for _ in range(need.gpus):
        rows &= (gpus >= need.part).any(axis=1)
        at = rows.nonzero()[0]
        gpus[at, fullest(gpus[at], need.part)] -= need.part
    return rows
