"""Runs of a job: suspension, requeue, and the end after a time of grace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hpcosim_protocol import JobRequeued, JobResumed, JobState, JobSuspended
from hpcosim_protocol.events import RequeueCause
from hpcosim_sim.engine.clock import Clock, Rank, Timer
from hpcosim_sim.engine.jobs import EMPTY, JobStage, SimulatedJob
from hpcosim_sim.errors import Rejection
from hpcosim_sim.physics.grants import check_reservations

if TYPE_CHECKING:
    from hpcosim_sim.engine.engine import Engine

LOST: frozenset[JobState] = frozenset({"node_failed", "preempted"})
"""Final states of jobs whose work is lost."""


class Graces:
    """The jobs that end or are requeued after a time of grace.

    Args:
        clock: clock of the simulation.

    Attributes:
        timers: timer of the end of each time of grace, by job id.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.timers: dict[int, Timer] = {}

    def set(self, job: SimulatedJob, grace_s: float, end: Callable[[SimulatedJob], None]) -> None:
        """End the run of a job after a time; this replaces an earlier time of grace.

        Args:
            job: the job, which has an allocation.
            grace_s: time, s; 0: now.
            end: called with the job when the time is over, unless the run ended before.
        """
        self.drop(job)
        if grace_s <= 0.0:
            end(job)
            return
        at_s = self._clock.now + grace_s
        self.timers[job.spec.job_id] = self._clock.at(at_s, Rank.WALLTIME, self._on_end, (job, end))

    def drop(self, job: SimulatedJob) -> None:
        """Forget the grace of a job whose run ends."""
        timer = self.timers.pop(job.spec.job_id, None)
        if timer is not None:
            self._clock.cancel(timer)

    def _on_end(self, timer: Timer) -> None:
        job, end = timer.subject
        del self.timers[job.spec.job_id]
        end(job)


def suspend(engine: Engine, job: SimulatedJob) -> None:
    """Suspend a running job. It frees its cores and keeps its other resources."""
    now_s = engine.now_s
    engine.end_timers.suspend(job)
    engine.cluster.vacate(now_s, job.parts)
    engine.cluster.release(job.nodes, job.held)
    job.parts = EMPTY
    engine.jobs.move(job, "suspended")
    engine.recording.suspended(job.row, now_s)
    engine.outbox.add(JobSuspended(now_s, job.spec.job_id))
    engine.actions.retry_resumes()


def check_resume(engine: Engine, job: SimulatedJob) -> None:
    """Check that a suspended job may run again.

    Raises:
        Rejection: a core is held by another job, or a reservation does not permit the job on its
            nodes for the rest of its requested time.
    """
    free, now_s = engine.cluster.free, engine.now_s
    for node, cores in zip(job.nodes, job.held, strict=True):
        if free[node] < cores:
            raise Rejection(
                "node_busy",
                f"resume_job: job {job.spec.job_id} needs {cores} cores of node {node}; "
                f"free: {free[node]}",
            )
    site = engine.cluster.site
    if site.platform.reservations and job.progress is not None:
        left_s = job.spec.requested_s - job.progress.used_s(now_s, is_suspended=True)
        check_reservations(site, job.spec, job.nodes, now_s, now_s + max(left_s, 0.0))


def resume(engine: Engine, job: SimulatedJob) -> None:
    """Resume a suspended job on its nodes, whose cores are free."""
    now_s, cluster = engine.now_s, engine.cluster
    for node, cores in zip(job.nodes, job.held, strict=True):
        cluster.free[node] -= cores
    engine.actions.drop_resume(job)
    engine.jobs.move(job, "running")
    job.parts = cluster.occupy(now_s, job.nodes, job.tasks)
    engine.end_timers.resume(job)
    engine.recording.resumed(job.row, now_s)
    engine.outbox.add(JobResumed(now_s, job.spec.job_id))


def leave(engine: Engine, job: SimulatedJob, before: JobStage, now_s: float) -> None:
    """Release everything that a job held in the state `before`, which it has just left."""
    if engine.graces.timers:
        engine.graces.drop(job)
    if before == "allocated":
        engine.switching.cancel_wait(job)
    if before != "suspended":
        if job.end is not None or job.shared:
            engine.end_timers.cancel(job)
        engine.cluster.vacate(now_s, job.parts)
        engine.cluster.release(job.nodes, job.held)
        if engine.actions.resumes:
            engine.actions.retry_resumes()
    else:
        engine.actions.drop_resume(job)
    if job.resources is not None:
        engine.resources.release(job.resources)
        job.resources = None


def requeue(
    engine: Engine,
    job: SimulatedJob,
    cause: RequeueCause,
    begin_s: float | None = None,
    *,
    hold: bool = False,
) -> None:
    """End the run of a job, and let the job wait again.

    Args:
        engine: the engine.
        job: an allocated, running or suspended job.
        cause: why.
        begin_s: earliest time at which the job is eligible again, s; None: now.
        hold: whether the job is held from now on.
    """
    now_s, before = engine.now_s, job.state
    engine.jobs.move(job, "waiting")
    lost_core_s = lost_work(engine, job, before)
    leave(engine, job, before, now_s)
    engine.recording.requeued(job.row, now_s, cause, lost_core_s)
    job.nodes = job.tasks = job.held = job.parts = EMPTY
    job.nodes_off = 0
    engine.outbox.add(JobRequeued(now_s, job.spec.job_id, cause))
    engine.eligibility.requeued(job, begin_s, hold=hold)


def fail(engine: Engine, job: SimulatedJob) -> None:
    """Requeue a job after the failure of one of its nodes, or end it if it forbids a requeue."""
    if is_requeueable(job):
        requeue(engine, job, "node_failed")
    else:
        engine.end(job, "node_failed")


def is_requeueable(job: SimulatedJob) -> bool:
    """Return whether a job may be requeued."""
    return job.spec.request is not None and job.spec.request.requeue


def lost_work(engine: Engine, job: SimulatedJob, before: JobStage) -> float:
    """Return the core-seconds of computing that are lost as a run ends.

    Args:
        engine: the engine.
        job: the job.
        before: its state before the end of the run.
    """
    if before == "allocated":
        return 0.0
    return engine.end_timers.interrupt(job, before == "suspended") * job.spec.cores
