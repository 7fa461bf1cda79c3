"""Nodes of jobs that Slurm has not started yet, and orders with their decisions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hpcosim_protocol import AllocateJob
from hpcosim_sim.engine.clock import Timer
from hpcosim_sim.physics.grants import Grant
from hpcosim_slurm.commands import Action, Begin, Hold, Order, Release, Resume, Withdraw
from hpcosim_slurm.state import ClusterState, LiveJob
from hpcosim_slurm.worlds.live_engine import LiveEngine
from hpcosim_slurm.worlds.site import Site, starts_in, waits_in


@dataclass(frozen=True, slots=True)
class LiveOrder:
    """An order with its decision.

    Attributes:
        order: the order.
        seq: the request of the decision.
        index: the position of the decision in the request.
    """

    order: Order
    seq: int
    index: int


@dataclass(frozen=True, slots=True)
class Promise:
    """Nodes of a job that Slurm has not started yet.

    Attributes:
        decision: the decision.
        seq: its request.
        index: its position in the request.
        nodes: the nodes, in the order of the decision.
        tasks: number of the job's cores on each of them.
        grant: what it gets beside its cores; None: what its placement implies.
        is_whole: whether it gets all cores of its nodes.
        timer: when Slurm is late.
        partition: the partitions to which the job goes back if Slurm does not start it.
    """

    decision: AllocateJob
    seq: int
    index: int
    nodes: list[int]
    tasks: list[int]
    grant: Grant | None
    is_whole: bool
    timer: Timer
    partition: str


class Promises:
    """The promises of a world, by job id."""

    def __init__(self) -> None:
        self._by_job: dict[int, Promise] = {}

    def __contains__(self, job_id: int) -> bool:
        return job_id in self._by_job

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_job)

    def add(self, job_id: int, promise: Promise) -> None:
        """Add a promise."""
        self._by_job[job_id] = promise

    def drop(self, engine: LiveEngine, job_id: int) -> Promise | None:
        """Remove a promise and its timer; return None if there is none."""
        promise = self._by_job.pop(job_id, None)
        if promise is not None and promise.timer.call is not None:
            engine.clock.cancel(promise.timer)
        return promise

    @contextmanager
    def kept(self, engine: LiveEngine) -> Iterator[None]:
        """Hold what is promised for the time of a check."""
        cluster, resources, held = engine.cluster, engine.resources, []
        for promise in self._by_job.values():
            cores = cluster.hold(promise.nodes, promise.tasks, promise.is_whole)
            held.append((promise, cores))
            if promise.grant is not None:
                resources.hold(promise.grant.resources)
        try:
            yield
        finally:
            for promise, cores in held:
                cluster.release(promise.nodes, cores)
                if promise.grant is not None:
                    resources.release(promise.grant.resources)


def release_of(job: LiveJob, site: Site) -> Release:
    """Return the action that lets Slurm start a job where it likes."""
    return Release(job.name_in_slurm, starts_in(site, job.partition) if site.waiting else "")


def wait_again(
    job: LiveJob, site: Site, *, is_decided: bool, begin_s: float | None
) -> list[Action]:
    """Return the actions after which a job that was requeued starts by a decision again.

    Args:
        job: the job.
        site: what else is known of the cluster.
        is_decided: whether a decision requeued it.
        begin_s: its earliest start by that decision, Unix time, s; None: Slurm's own.
    """
    name, waits = job.name_in_slurm, waits_in(site, job.partition)
    found: list[Action] = []
    if not site.waiting:
        if not job.is_held:
            found.append(Hold(name))
    else:
        if job.partition != waits:
            found.append(Withdraw(name, waits))
        if is_decided and job.is_held:  # as Slurm holds suspended jobs
            found.append(Release(name))
    if begin_s is not None:
        found.append(Begin(name, begin_s))
    return found


def releases_of(state: ClusterState, site: Site, suspended: frozenset[int]) -> list[Order]:
    """Return the orders after which nobody needs to decide any more.

    Slurm starts all waiting jobs, and jobs that the scheduler has suspended are resumed as soon as
    the CPUs of their nodes are free.

    Args:
        state: the cluster.
        site: what else is known of it.
        suspended: numbers of the jobs that the scheduler has suspended.
    """
    orders = [
        Order(release_of(job, site), "fall-back")
        for job in state.jobs.values()
        if job.state == "pending" and _waits_for_us(job, site)
    ]
    free = {name: node.cpus for name, node in state.nodes.items()}
    for job in state.jobs.values():
        if job.state in ("configuring", "running", "completing"):
            _take(free, job)
    for job_id in sorted(suspended & state.jobs.keys()):
        job = state.jobs[job_id]
        if job.state == "suspended" and _take(free, job):
            orders.append(Order(Resume(job.name_in_slurm), "fall-back"))
    return orders


def _take(free: dict[str, int], job: LiveJob) -> bool:
    """Take the CPUs of a job, spread evenly over its nodes; return whether they were free."""
    each = -(-job.cpus // max(len(job.nodes), 1))
    has_room = all(free.get(name, 0) >= each for name in job.nodes)
    free |= {name: free[name] - each for name in job.nodes if name in free}
    return has_room


def _waits_for_us(job: LiveJob, site: Site) -> bool:
    if site.waiting:
        return set(job.partition.split(",")) <= set(site.waiting)
    return waits_held(job, site)


def waits_held(job: LiveJob, site: Site) -> bool:
    """Return whether a job is held because it waits for the bridge, not for an operator.

    In mode hold without waiting partitions jobs are submitted held. Slurm does not tell whether
    their users wanted that, or `job_submit.lua`: both are `JobHeldUser`.
    """
    is_submitted_held = site.mode == "hold" and not site.waiting
    return is_submitted_held and job.is_held and job.reason != "JobHeldAdmin"
