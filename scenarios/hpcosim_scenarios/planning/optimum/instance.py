"""A small scenario as the search for its optimum sees it: kinds of jobs, instants and nodes."""

from __future__ import annotations

import math
from typing import NamedTuple

from hpcosim_scenarios.errors import OptimumError
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.planning.optimum.nodes import NodeModel
from hpcosim_server.physics.cluster import Cluster
from hpcosim_server.physics.execution import Execution
from hpcosim_workloads.table import JobSpec, JobTable

Counts = tuple[int, ...]
"""How many jobs of each kind."""


class Instant(NamedTuple):
    """Submissions of one moment, and all that is known of those from then on.

    Attributes:
        at_s: when.
        counts: jobs submitted then, by kind.
        to_come: jobs submitted then or later, by kind.
        next_s: when the next of each kind is, that is then or later; infinity: never.
        last_s: when the last of each kind is; minus infinity: there is none.
    """

    at_s: float
    counts: Counts
    to_come: Counts
    next_s: tuple[float, ...]
    last_s: tuple[float, ...]


class Instance:
    """A scenario's jobs and nodes. Jobs that run alike on every node are of one kind.

    Attributes:
        start_s: when the clock starts.
        kinds: a job of each kind.
        members: the numbers of the jobs of each kind, in order of submission.
        instants: when jobs are submitted; a last one, at infinity, brings none.
        nodes: the model of each node.
        groups: where the equal nodes of each group begin and end.
        idle_w: power of all nodes while nothing runs.

    Raises:
        OptimumError: as `optimum.least`.
    """

    def __init__(self, scenario: Scenario, jobs: JobTable) -> None:
        rows = list(jobs.rows())
        _check(scenario, rows)
        self.start_s = rows[0].submit_s
        alike: dict[tuple[float, ...], list[JobSpec]] = {}
        for job in rows:
            alike.setdefault(_what_runs(job), []).append(job)
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


def _what_runs(job: JobSpec) -> tuple[float, ...]:
    """Return all of a job that its run depends on."""
    work = job.ops if job.ops else job.run_s
    return (job.cores, job.ops, work, job.memory_volume_mb)


def _instants(submits_s: list[list[float]]) -> list[Instant]:
    """Return the moments of submissions, of which there is a list for each kind."""
    none = (0,) * len(submits_s)
    never, past = (math.inf,) * len(submits_s), (-math.inf,) * len(submits_s)
    instants = [Instant(math.inf, none, none, never, past)]
    for at_s in sorted({at_s for its_s in submits_s for at_s in its_s}, reverse=True):
        after = instants[-1]
        counts = tuple(its_s.count(at_s) for its_s in submits_s)
        to_come = tuple(map(sum, zip(counts, after.to_come, strict=True)))
        next_s = tuple(
            at_s if now else later for now, later in zip(counts, after.next_s, strict=True)
        )
        last_s = tuple(
            at_s if now and later == -math.inf else later
            for now, later in zip(counts, after.last_s, strict=True)
        )
        instants.append(Instant(at_s, counts, to_come, next_s, last_s))
    return instants[::-1]


def _check(scenario: Scenario, jobs: list[JobSpec]) -> None:
    """Raise OptimumError where the search would not know what the simulator does."""
    groups = scenario.platform.nodes
    if any(len(group.processors) > 1 for group in groups):
        raise OptimumError("the optimum is sought for nodes of one processor")
    if scenario.kill_at_walltime:
        raise OptimumError("the optimum is sought for jobs that run to their end")
    largest = max(group.cores for group in groups)
    for job in jobs:
        if job.placement != "one_node" or job.cores > largest or job.max_energy_j < math.inf:
            raise OptimumError(
                f"the optimum is sought for jobs that each fit on one node and ask for one, "
                f"placement: one_node, at any energy; job {job.job_id} does not"
            )
