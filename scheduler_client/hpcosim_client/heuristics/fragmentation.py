"""Fragmentation gradient descent: jobs go where the least GPU capacity becomes unusable.

Weng et al. 2023 (Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent, USENIX ATC), sections 3 and 4. The mix of jobs has classes with equal demands of
cores, GPUs and nodes, each with a share of all jobs. The fragmentation of a node for a class is

- the free part of all its GPUs, if a job of the class does not fit on the node or needs no GPU;
- otherwise the free part of those GPUs that have less than the job needs of each.

The fragmentation of a node is the mean over the mix. A job goes to the node, and a job with a share
to the GPU, with the least increase; of equal ones to the lowest-numbered.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpcosim_client.heuristics.gpu_nodes import GpuNodes, gpu_need
from hpcosim_client.heuristics.gpu_packing import GpuPlace, filling, packed
from hpcosim_client.job import Bools, Floats, Ints, Job
from hpcosim_client.view import Policy, View
from hpcosim_protocol.resources import WHOLE_DEVICE

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
        everywhere = np.ones(nodes, dtype=np.bool_)
        masks = [self._nodes.get(key) for key in keys]
        parts, part = np.unique([key[1] for key in keys], return_inverse=True)
        return MixedClasses(
            np.array([key[0] for key in keys], dtype=np.int64),
            parts.astype(np.int64),
            part,
            np.array([key[2] for key in keys], dtype=np.int64),
            np.array([everywhere if mask is None else mask for mask in masks]).reshape(-1, nodes),
            np.array([self.jobs[key] for key in keys]) / max(sum(self.jobs.values()), 1),
        )


class MixedClasses(NamedTuple):
    """Classes of jobs that need GPUs.

    Attributes:
        cores: int64[classes].
        parts: int64[parts], the different thousandths of a GPU that the classes need.
        part: int64[classes], index in `parts`.
        count: int64[classes], number of GPUs.
        nodes: bool[classes, nodes], the nodes that the class may use.
        weight: float64[classes], share of all jobs.
    """

    cores: Ints
    parts: Ints
    part: Ints
    count: Ints
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
        fits &= roomy.sum(axis=2)[self.part] >= self.count[:, np.newaxis]
        fits &= self.nodes[:, nodes]
        used = np.einsum("c,cn,cn->n", self.weight, fits, usable[self.part])
        found: Floats = gpus.sum(axis=1) - used
        return found


class _Known(NamedTuple):
    """Increases that were calculated before.

    Attributes:
        cores: int64[nodes], free cores then.
        gpus: int64[nodes, GPUs], free thousandths then.
        increase: float64[nodes].
        column: int64[nodes], the GPU of a job with a share.
    """

    cores: Ints
    gpus: Ints
    increase: Floats
    column: Ints


def fgd(mix: JobMix | None = None) -> Policy:
    """Return the policy of fragmentation gradient descent; see the module.

    Args:
        mix: the mix of jobs, which stays as it is; None: all jobs that have arrived so far.
    """
    gradient = _Gradient(mix)
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
    """

    def __init__(self, mix: JobMix | None) -> None:
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
        node, need = int(nodes[np.argmin(known.increase[nodes])]), gpu_need(job)
        if 0 < need.part < WHOLE_DEVICE:
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
            known.increase[changed], known.column[changed] = found
        return known


def class_of(job: Job) -> ClassKey:
    """Return the class of a job."""
    need = gpu_need(job)
    choices = () if job.demand is None else job.demand.choices
    return (job.cores, need.part, need.count, tuple(id(choice.nodes) for choice in choices))


def _increases(
    classes: MixedClasses, job: Job, nodes: Ints, cores: Ints, gpus: Ints
) -> tuple[Floats, Ints]:
    """Return by how much a job increases the fragmentation of nodes, and the best GPU of each.

    Args:
        classes: the mix.
        job: the job.
        nodes: int64[n], node numbers.
        cores: int64[n], free cores.
        gpus: int64[n, GPUs], free thousandths.

    Returns:
        float64[n], infinity where the GPUs have no room, and int64[n].
    """
    need = gpu_need(job)
    before = classes.fragmentation(nodes, cores, gpus)
    least, column = np.full(len(nodes), np.inf), np.zeros(len(nodes), dtype=np.int64)
    shares = 0 < need.part < WHOLE_DEVICE
    for option in range(gpus.shape[1] if shares else 1):
        after, rows = gpus.copy(), gpus[:, option : option + 1].sum(axis=1) >= need.part
        if shares:
            after[:, option] -= need.part
        else:
            idle = gpus == WHOLE_DEVICE
            rows = idle.sum(axis=1) >= need.count
            after[idle & (idle.cumsum(axis=1) <= need.count)] -= need.part
        rows &= cores >= job.cores
        left = cores[rows] - job.cores
        increase = np.full(len(nodes), np.inf)
        increase[rows] = classes.fragmentation(nodes[rows], left, after[rows]) - before[rows]
        better = increase < least
        least[better], column[better] = increase[better], option
    return least, column
