"""Waiting jobs as the passes of the schedulers see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from operator import itemgetter

import numpy as np

from hpcosim_client.demand import Demand, NodeChoice
from hpcosim_client.free_resources import FreeResources
from hpcosim_client.job import Job
from hpcosim_protocol import JobRequest, Platform
from hpcosim_schedulers.slurm.future import Candidate, NodeSet, set_of, set_of_mask
from hpcosim_schedulers.slurm.select import least_nodes
from hpcosim_schedulers.slurm.timers import whole_seconds

NO_REQUEST = JobRequest()


class Candidates:
    """Candidates of jobs, made once for each job."""

    def __init__(self, platform: Platform, free: FreeResources) -> None:
        self._free = free
        self._partitions = {each.name: each for each in platform.partitions}
        groups = [group for group in platform.nodes for _ in range(group.count)]
        self._memory = np.array([group.memory_mb or np.inf for group in groups])
        self._limits_memory = "memory" in platform.consumable
        everywhere = np.ones(free.slots.nodes, dtype=np.bool_)
        self._anywhere: tuple[NodeChoice, ...] = (NodeChoice("", everywhere),)
        self._whole: tuple[NodeChoice, ...] = (NodeChoice("", everywhere, whole=True),)
        self._of: dict[int, tuple[object, float, list[Candidate]]] = {}

    def of(self, job: Job) -> list[Candidate]:
        """Return the candidates of a job, one for each of its partitions, in their order."""
        known = self._of.get(job.job_id)
        if known is None or known[0] is not job.request or known[1] != job.requested_s:
            known = (job.request, job.requested_s, list(self._make(job)))
            self._of[job.job_id] = known
        return known[2]

    def forget(self, jobs: Iterable[Job]) -> None:
        """Forget jobs that wait no more."""
        for job in jobs:
            self._of.pop(job.job_id, None)

    def ordered(
        self, jobs: list[Job], priority: Callable[[Job, str], int], most: int | None = None
    ) -> Iterable[Candidate]:
        """Return the candidates of jobs by tier of the partition, priority, and number.

        Args:
            jobs: jobs in the order of their best partition.
            most: jobs behind the last of at most `most` cores may be left out; None: none may.
        """
        if not self._partitions:
            count = len(jobs)
            while most is not None and count and jobs[count - 1].cores > most:
                count -= 1
            return (self.of(job)[0] for job in jobs[:count])
        found: list[Candidate] = []
        several = False
        for job in jobs:
            own = self.of(job)
            several = several or len(own) != 1
            found += own
        if not several:
            return self._up(found)

        def key(candidate: Candidate) -> tuple[int, int, int]:
            part = self._partitions.get(candidate.partition)
            tier = 1 if part is None else part.priority_tier
            own = priority(candidate.job, candidate.partition)
            return (-tier, -own, candidate.job.job_id)

        return self._up(sorted(found, key=key))

    def _up(self, candidates: list[Candidate]) -> list[Candidate]:
        """Return the candidates whose partition starts jobs."""
        closed = {n for n, part in self._partitions.items() if part.state in ("down", "inactive")}
        if not closed:
            return candidates
        return [candidate for candidate in candidates if candidate.partition not in closed]

    def _make(self, job: Job) -> Iterable[Candidate]:
        demand = job.demand
        if demand is None:
            choices = self._whole if job.placement == "whole_nodes" else self._anywhere
            demand = Demand(NO_REQUEST, choices)
        for name, group in groupby(demand.choices, itemgetter(0)):
            choices, request = tuple(group), demand.request
            least = least_nodes(job, demand)
            stated = bool(
                request.required_nodes
                or request.gres_per_job
                or any(choice.quotas for choice in choices)
            )
            yield Candidate(
                job,
                demand,
                choices,
                name,
                _kind(job, demand, name),
                least,
                self._suitable(job, demand, choices),
                max(whole_seconds(job.requested_s), 1),
                not stated and not request.nodes_max and not request.switches,
                job.demand is None and job.placement != "one_node",
                not stated and request.nodes_max == 1 and least == 1,
                request.switches,
            )

    def _suitable(self, job: Job, demand: Demand, choices: tuple[NodeChoice, ...]) -> NodeSet:
        """Return the nodes of the choices with enough cores and memory, whatever is free."""
        request = demand.request
        nodes = 0
        for choice in choices:
            nodes |= set_of_mask(choice.nodes)
        least = request.cores_per_task * max(request.tasks_per_node, 1)
        enough = self._free.capacity >= min(least, job.cores)
        if self._limits_memory and request.memory_per_node_mb:
            enough &= self._memory >= request.memory_per_node_mb
        if request.required_nodes:
            nodes |= set_of(request.required_nodes)
        return nodes & set_of_mask(enough)


def _kind(job: Job, demand: Demand, partition: str) -> object:
    """Return what determines what nodes offer to a job; see `Candidate.kind`."""
    request = demand.request
    if job.demand is None:
        return (job.placement, job.cores if job.placement == "one_node" else 0)
    least = min(request.tasks_per_node * request.cores_per_task, job.cores)
    return (
        partition,
        job.placement,
        job.cores if job.placement == "one_node" else least,
        job.memory_mb,
        request.memory_per_node_mb,
        request.all_memory,
        request.tasks_per_node,
        request.cores_per_task,
        request.features,
        request.excluded_nodes,
        tuple(request.gres_per_node.items()),
        tuple(request.gres_per_task.items()),
        tuple(request.gres_per_job.items()),
    )


def nodes_available(free: FreeResources, unavailable: Iterable[int]) -> NodeSet:
    """Return the set of all nodes without those that failed or are drained."""
    return ((1 << free.slots.nodes) - 1) & ~set_of(unavailable)
