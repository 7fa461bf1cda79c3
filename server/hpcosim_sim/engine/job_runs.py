"""What interrupts or ends jobs: suspension, requeue, users' actions, and changes of their nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from hpcosim_protocol import (
    JobRequest,
    JobRequeued,
    JobResumed,
    JobState,
    JobSuspended,
    JobUpdated,
    NodeDrained,
    NodeFailed,
    NodePowerChanged,
    NodeRepaired,
)
from hpcosim_protocol.events import RequeueCause
from hpcosim_sim.engine.clock import Clock, Rank, Timer
from hpcosim_sim.engine.jobs import EMPTY, HELD, JobStage, SimulatedJob
from hpcosim_sim.engine.site_events import JobAction, JobActionKind, NodeChangeKind
from hpcosim_sim.errors import Rejection
from hpcosim_sim.physics.grants import check_reservations

if TYPE_CHECKING:
    from hpcosim_sim.engine.engine import Engine


LOST: frozenset[JobState] = frozenset({"node_failed", "preempted"})
"""Final states of jobs whose work is lost."""


MAX_TRIES = 10_000
"""Number of tries in a row in which no job is resumed, because of reservations."""


class Graces:
    """The jobs that end or are requeued after a time of grace."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.timers: dict[int, Timer] = {}

    def set(self, job: SimulatedJob, grace_s: float, end: Callable[[SimulatedJob], None]) -> None:
        """End the run of a job after a time; this replaces an earlier time of grace.

        Args:
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
    """Return the core-seconds of computing that are lost as a run ends."""
    if before == "allocated":
        return 0.0
    return engine.end_timers.interrupt(job, before == "suspended") * job.spec.cores


class JobActions:
    """Carries out actions at their times.

    An action on a job that is over, not submitted yet or in a state that does not permit it has no
    effect. A `resume` waits until the cores of the job are free and reservations permit the job on
    its nodes; then it precedes the scheduler. Another `suspend` revokes it.

    Args:
        actions: the actions, of any order. Actions of one time keep their order.

    Attributes:
        ignored: number of actions without effect.
        resumes: suspended jobs to resume, by number.
    """

    def __init__(self, engine: Engine, actions: Sequence[JobAction]) -> None:
        self._engine = engine
        self._to_come = len(actions)
        self.ignored = 0
        self.resumes: dict[int, SimulatedJob] = {}
        self._retry: Timer | None = None
        self._tries = 0
        clock = engine.clock
        for action in sorted(actions, key=lambda action: action.at_s):
            clock.at(max(action.at_s, clock.now), Rank.ACTION, self._on_action, action)

    def _on_action(self, timer: Timer) -> None:
        self._to_come -= 1
        self.act(timer.subject)

    def act(self, action: JobAction) -> None:
        """Carry out an action now."""
        engine = self._engine
        job = engine.jobs.find(action.job_id)
        if job is None or not _CARRY_OUT[action.kind](engine, job, action):
            self.ignored += 1
        engine.drop_hopeless()

    def resume(self, job: SimulatedJob) -> None:
        """Resume a suspended job now, or as soon as its nodes permit it."""
        self.resumes[job.spec.job_id] = job
        self._try_resumes()

    def drop_resume(self, job: SimulatedJob) -> bool:
        """Forget that a job is to be resumed, and return whether it was."""
        return bool(self.resumes) and self.resumes.pop(job.spec.job_id, None) is not None

    @property
    def pending(self) -> bool:
        """Whether the time of an action, or of trying to resume a job again, is to come."""
        return self._to_come > 0 or (self._retry is not None and bool(self.resumes))

    def retry_resumes(self) -> None:
        """Try at the end of this instant to resume jobs: cores may be free again."""
        if self.resumes:
            self._retry_at(self._engine.now_s)

    def _try_resumes(self) -> None:
        """Resume jobs, in the order of their actions, as far as their nodes permit it."""
        engine, reserved = self._engine, False
        for job in list(self.resumes.values()):
            try:
                check_resume(engine, job)
            except Rejection as rejection:
                reserved |= rejection.code == "reserved"
            else:
                resume(engine, job)
                self._tries = 0
        if reserved and self._tries < MAX_TRIES:
            self._tries += 1
            self._retry_at(engine.cluster.site.next_window_s(engine.now_s))

    def _retry_at(self, at_s: float) -> None:
        clock = self._engine.clock
        if at_s == math.inf or (self._retry is not None and self._retry.at_s <= at_s):
            return
        if self._retry is not None:
            clock.cancel(self._retry)
        self._retry = clock.at(at_s, Rank.ACTION, self._on_retry, None)

    def _on_retry(self, timer: Timer) -> None:
        self._retry = None
        self._try_resumes()


def _cancel(engine: Engine, job: SimulatedJob, action: JobAction) -> bool:
    engine.end(job, "cancelled")
    return True


def _hold(engine: Engine, job: SimulatedJob, action: JobAction) -> bool:
    if job.state != "waiting" or job.blocked & HELD:
        return False
    engine.eligibility.hold(job)
    return True


def _release(engine: Engine, job: SimulatedJob, action: JobAction) -> bool:
    if job.state != "waiting" or not job.blocked & HELD:
        return False
    engine.eligibility.release(job)
    return True


def _requeue(engine: Engine, job: SimulatedJob, action: JobAction) -> bool:
    if job.state == "waiting" or not is_requeueable(job):
        return False
    requeue(engine, job, "user", action.begin_s, hold=action.hold)
    return True


def _suspend(engine: Engine, job: SimulatedJob, action: JobAction) -> bool:
    if job.state != "running":
        return engine.actions.drop_resume(job)
    suspend(engine, job)
    return True


def _resume(engine: Engine, job: SimulatedJob, action: JobAction) -> bool:
    if job.state != "suspended":
        return False
    engine.actions.resume(job)
    return True


def _update(engine: Engine, job: SimulatedJob, action: JobAction) -> bool:
    """Change a job; the begin time only while it waits."""
    spec, request = job.spec, job.spec.request or JobRequest()
    values: Mapping[str, Any] = {
        "priority": action.priority,
        "nice": action.nice,
        "array_limit": action.array_limit,
        "begin_s": action.begin_s if job.state == "waiting" else None,
    }
    changed = {name: value for name, value in values.items() if value is not None}
    if not changed and action.requested_s is None:
        return False
    if changed:
        job.spec = spec = spec._replace(request=replace(request, **changed))
    if action.requested_s is not None:
        job.spec = spec = spec._replace(requested_s=action.requested_s)
        engine.recording.requested_s[job.row] = action.requested_s
        if job.state == "running":
            engine.end_timers.set_again(job)
        engine.actions.retry_resumes()
    engine.eligibility.take_up(job)
    engine.outbox.add(JobUpdated(engine.now_s, spec.job_id, spec.requested_s, spec.request))
    if "begin_s" in changed:
        engine.eligibility.begin_at(job, changed["begin_s"])
    if "array_limit" in changed and request.array_id is not None:
        engine.eligibility.limit_array(request.array_id, changed["array_limit"])
    return True


_CARRY_OUT: Mapping[JobActionKind, Callable[[Engine, SimulatedJob, JobAction], bool]] = {
    "cancel": _cancel,
    "hold": _hold,
    "release": _release,
    "requeue": _requeue,
    "suspend": _suspend,
    "resume": _resume,
    "update": _update,
}


def change_node(engine: Engine, kind: NodeChangeKind, node: int) -> bool:
    """Let a node fail, drain or be repaired now.

    Returns:
        Whether the change had an effect.
    """
    if kind == "fail":
        return _fail(engine, node)
    if kind == "drain":
        return _drain(engine, node)
    return _repair(engine, node)


def _fail(engine: Engine, node: int) -> bool:
    """Let a node fail: its jobs are requeued or end, and it draws no power."""
    now_s, jobs = engine.now_s, engine.jobs
    if not engine.availability.fail(now_s, node):
        return False
    engine.outbox.add(NodeFailed(now_s, node))
    for job in jobs.in_order():
        if node in job.nodes:
            fail(engine, job)
    engine.switching.cancel(node)
    engine.power.fail(now_s, node)
    engine.recording.powered(now_s, node, "down")
    return True


def _drain(engine: Engine, node: int) -> bool:
    """Let a node accept no new jobs."""
    if not engine.availability.drain(engine.now_s, node):
        return False
    engine.recording.changed_drain(engine.now_s, node, drained=True)
    engine.outbox.add(NodeDrained(engine.now_s, node))
    return True


def _repair(engine: Engine, node: int) -> bool:
    """Make a node available again. A node that failed is on afterwards."""
    now_s, availability = engine.now_s, engine.availability
    had_failed, was_drained = node in availability.failed, node in availability.drained
    if not availability.repair(node):
        return False
    engine.outbox.add(NodeRepaired(now_s, node))
    if was_drained:
        engine.recording.changed_drain(now_s, node, drained=False)
    if had_failed:
        was_on = engine.power.state[node] == "on"
        engine.power.repair(now_s, node)
        engine.recording.powered(now_s, node, "on")
        if not was_on:
            engine.outbox.add(NodePowerChanged(now_s, node, "on"))
    return True
