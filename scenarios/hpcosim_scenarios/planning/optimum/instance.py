"""A small scenario as the input of the search: kinds of jobs, submission times and nodes."""

from __future__ import annotations

import math
from typing import NamedTuple

from hpcosim_scenarios.errors import OptimumError
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.planning.optimum.nodes import NodeModel
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_sim.physics.execution import Execution
from hpcosim_workloads.table import JobSpec, JobTable

Counts = tuple[int, ...]
"""Number of jobs by kind."""


class Instant(NamedTuple):
    """The submissions at one time, and a summary of all submissions from then on.

    Attributes:
        at_s: the time, s.
        counts: jobs submitted at that time, by kind.
        remaining: jobs submitted at that time or later, by kind.
        next_submit_s: first submission of each kind at that time or later, s; infinity: none.
        last_submit_s: last submission of each kind, s; minus infinity: none at that time or later.
    """

    at_s: float
    counts: Counts
    remaining: Counts
    next_submit_s: tuple[float, ...]
    last_submit_s: tuple[float, ...]


class Instance:
    """Jobs and nodes of a scenario. Jobs with equal run times on every node are of one kind.

    Attributes:
        start_s: start of the simulation, s.
        kinds: one job of each kind.
        members: numbers of the jobs of each kind, in order of submission.
        instants: the submission times; the last one, at infinity, has no jobs.
        nodes: model of each node.
        groups: first node and node after the last of each group of equal nodes.
        idle_w: power of all nodes without jobs, W.

    Raises:
        OptimumError: as `find_optimum`.
    """

    def __init__(self, scenario: Scenario, jobs: JobTable) -> None:
        rows = list(jobs.rows())
        _check(scenario, rows)
        self.start_s = rows[0].submit_s
        alike: dict[tuple[float, ...], list[JobSpec]] = {}
        for job in rows:
            alike.setdefault(_run_key(job), []).append(job)
        self.kinds = [its[0] for its in alike.values()]
        self.members = [[job.job_id for job in its] for its in alike.values()]
        self.instants = _instants([[job.submit_s for job in its] for its in alike.values()])
        cluster = Cluster(scenario.platform, self.start_s)
        execution = Execution(scenario.platform, scenario.workload.reference_clock_ghz)
        self.nodes: list[NodeModel] = []
        self.groups: list[tuple[int, int]] = []
        for group in scenario.platform.nodes:
            first = len(self.nodes)
            self.nodes += [NodeModel(cluster, execution, first, self.kinds)] * group.count
            self.groups.append((first, len(self.nodes)))
        self.idle_w = sum(node.idle_w for node in self.nodes)


def _run_key(job: JobSpec) -> tuple[float, ...]:
    """Return the properties of a job that determine its run."""
    work = job.ops if job.ops else job.run_s
    return (job.cores, job.ops, work, job.memory_volume_mb)


def _instants(submits_s: list[list[float]]) -> list[Instant]:
    """Return the submission times.

    Args:
        submits_s: submission times of the jobs of each kind, s.
    """
    none = (0,) * len(submits_s)
    never, past = (math.inf,) * len(submits_s), (-math.inf,) * len(submits_s)
    instants = [Instant(math.inf, none, none, never, past)]
    for at_s in sorted({at_s for its_s in submits_s for at_s in its_s}, reverse=True):
        after = instants[-1]
        counts = tuple(its_s.count(at_s) for its_s in submits_s)
        remaining = tuple(map(sum, zip(counts, after.remaining, strict=True)))
        next_submit_s = tuple(
            at_s if now else later for now, later in zip(counts, after.next_submit_s, strict=True)
        )
        last_submit_s = tuple(
            at_s if now and later == -math.inf else later
            for now, later in zip(counts, after.last_submit_s, strict=True)
        )
        instants.append(Instant(at_s, counts, remaining, next_submit_s, last_submit_s))
    return instants[::-1]


def _check(scenario: Scenario, jobs: list[JobSpec]) -> None:
    """Raise OptimumError if the models of the search differ from the simulator."""
    groups = scenario.platform.nodes
    if any(len(group.processors) > 1 for group in groups):
        raise OptimumError("the search supports nodes with one processor only")
    if scenario.kill_at_walltime:
        raise OptimumError("the search does not support kill_at_walltime: true")
    platform = scenario.platform
    site = platform.consumable != ("cores",) or platform.partitions or platform.reservations
    if site or scenario.failures is not None or scenario.actions:
        raise OptimumError(
            "the search does not support partitions, reservations, consumable memory, failures "
            "and actions"
        )
    largest = max(group.cores for group in groups)
    for job in jobs:
        if job.request is not None:
            raise OptimumError(
                f"the search supports jobs of cores and time only; job {job.job_id} has a request"
            )
        if job.placement != "one_node" or job.cores > largest or job.max_energy_j < math.inf:
            raise OptimumError(
                f"the search supports jobs with placement: one_node that fit on a node and have "
                f"no max_energy_j; job {job.job_id} is none"
            )
