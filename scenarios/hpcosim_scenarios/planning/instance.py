"""A small scenario as the input of the search for its optimum, and its nodes as values.

The search compares and stores millions of node states. Speeds, run times and power come from
functions of the server. `NodeModel` calls them at the same times as
`physics.execution.SharedProcessor`, with the same arithmetic to the last bit, so that events
coincide where they do in the simulator.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from hpcosim_protocol import bandwidth_mbps, task_speed
from hpcosim_scenarios.errors import OptimumError
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_sim.physics.cluster import AllocationPart, Cluster
from hpcosim_sim.physics.execution import Execution
from hpcosim_workloads.table import JobSpec, JobTable

Counts = tuple[int, ...]
"""Number of jobs by kind."""


class RunningJob(NamedTuple):
    """A job that runs on a node.

    Attributes:
        kind: index of its kind.
        remaining_s: remaining work at `updated_s`, in seconds at full speed.
        updated_s: time of the last change of its speed, s.
        speed: current speed, a share of full speed.
        end_s: end at that speed, s.
    """

    kind: int
    remaining_s: float
    updated_s: float
    speed: float
    end_s: float


class NodeModel:
    """The properties of the nodes of a group: run time and power of each kind of job.

    Attributes:
        capacity: cores of a node.
        cores: cores of a job, by kind.
        alone_s: run time of a job without contention, s, by kind.
        idle_w: power of a node without jobs, W.
        extra_w: power above `idle_w`, W, by the number of busy cores.
        idle: state of a node without jobs.
    """

    def __init__(
        self, cluster: Cluster, execution: Execution, node: int, kinds: Sequence[JobSpec]
    ) -> None:
        meter = cluster.meters[cluster.group_of[node]]
        self.capacity = cluster.capacity[node]
        self.cores = [kind.cores for kind in kinds]
        parts = [[AllocationPart(meter, [node], [[kind.cores]])] for kind in kinds]
        self.alone_s = [
            execution.run_time_s(kind, its) for kind, its in zip(kinds, parts, strict=True)
        ]
        # Tasks that contend for memory bandwidth; 0: the kind takes no part in contention.
        self._contending = [
            kind.cores if execution.is_shared(kind, its) else 0
            for kind, its in zip(kinds, parts, strict=True)
        ]
        self._mbps = [
            bandwidth_mbps(kind.memory_volume_mb, alone_s) if contending else 0.0
            for kind, alone_s, contending in zip(kinds, self.alone_s, self._contending, strict=True)
        ]
        self._contention = meter.processors[0].contention
        powers_w = [cluster.power_w(node, "on", (busy,)) for busy in range(self.capacity + 1)]
        self.idle_w = powers_w[0]
        self.extra_w = [power_w - self.idle_w for power_w in powers_w]
        self._known: dict[tuple[RunningJob, ...], NodeState] = {}
        self._numbers = itertools.count()
        self.idle = self.state(())

    def state(self, jobs: tuple[RunningJob, ...]) -> NodeState:
        """Return the unique state of a node with these jobs, in order of their start."""
        state = self._known.get(jobs)
        if state is None:
            state = self._known[jobs] = NodeState(self, next(self._numbers), jobs)
        return state

    def speeds(self, running: Sequence[tuple[int, int]]) -> list[float]:
        """Return the speed of each job, a share of full speed.

        Args:
            running: kind, and number of tasks with remaining work, of each job.
        """
        if self._contention is None:
            return [1.0] * len(running)
        total_mbps = sum(self._mbps[kind] * self._contending[kind] for kind, _ in running)
        active = max(sum(tasks for kind, tasks in running if self._contending[kind]), 1)
        return [
            task_speed(self._contention, total_mbps, self._mbps[kind], active)
            if self._contending[kind]
            else 1.0
            for kind, _ in running
        ]

    def with_speeds(self, jobs: Sequence[RunningJob], now_s: float) -> list[RunningJob]:
        """Return the jobs with their speeds from a time on; jobs of an unchanged speed stay equal.

        A job that is due has no remaining work, and takes no part in contention.
        """
        tasks = [0 if job.end_s <= now_s else self.cores[job.kind] for job in jobs]
        running = [(job.kind, count) for job, count in zip(jobs, tasks, strict=True)]
        changed = []
        for job, count, speed in zip(jobs, tasks, self.speeds(running), strict=True):
            if job.speed == speed or not count:
                changed.append(job)
                continue
            remaining_s = max(job.remaining_s - job.speed * (now_s - job.updated_s), 0.0)
            changed.append(
                RunningJob(job.kind, remaining_s, now_s, speed, now_s + remaining_s / speed)
            )
        return changed


class NodeState:
    """The jobs on a node from some time on. Equal states are one object, so `is` compares them.

    Attributes:
        model: properties of the node.
        number: identifies the state among those of the model.
        jobs: the running jobs, in order of their start.
        free: cores without a task.
        extra_w: power above idle power, W.
        next_end_s: next end of a job, s; infinity: no job runs.
        last_end_s: last end of a job if no more start, s; minus infinity: no job runs.
    """

    __slots__ = (
        "_after",
        "_after_j",
        "_started",
        "extra_w",
        "free",
        "jobs",
        "last_end_s",
        "model",
        "next_end_s",
        "number",
    )

    def __init__(self, model: NodeModel, number: int, jobs: tuple[RunningJob, ...]) -> None:
        self.model = model
        self.number = number
        self.jobs = jobs
        busy = sum(model.cores[job.kind] for job in jobs)
        self.free = model.capacity - busy
        self.extra_w = model.extra_w[busy]
        self._started: dict[tuple[int, float], NodeState] = {}
        self.next_end_s, self.last_end_s = math.inf, -math.inf
        self._after, self._after_j = self, 0.0
        if jobs:
            self.next_end_s = min(job.end_s for job in jobs)
            self._after = self._after_next_end()
            self.last_end_s = max(self.next_end_s, self._after.last_end_s)
            self._after_j = self._after.extra_j(self.next_end_s)

    def extra_j(self, from_s: float) -> float:
        """Return the energy above idle power from a time on if no more jobs start, J."""
        if not self.jobs:
            return 0.0
        return self.extra_w * (self.next_end_s - from_s) + self._after_j

    def after(self) -> NodeState:
        """Return the state from `next_end_s` on if no job starts before."""
        return self._after

    def start(self, kind: int, now_s: float) -> NodeState:
        """Return the state after the start of a job of a kind; there must be cores for it."""
        state = self._started.get((kind, now_s))
        if state is None:
            new = RunningJob(kind, self.model.alone_s[kind], now_s, 0.0, math.inf)
            jobs = self.model.with_speeds((*self.jobs, new), now_s)
            state = self._started[kind, now_s] = self.model.state(tuple(jobs))
        return state

    def _after_next_end(self) -> NodeState:
        """Return the state after the next end. Jobs with the same end are removed one by one."""
        now_s, jobs = self.next_end_s, list(self.jobs)
        for due in [job for job in jobs if job.end_s <= now_s]:
            jobs = self.model.with_speeds([it for it in jobs if it is not due], now_s)
        return self.model.state(tuple(jobs))


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
    """Return the submission times."""
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
