"""What users and administrators do to jobs: cancel, hold, release, requeue, suspend, change."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from hpcosim_protocol import JobRequest, JobUpdated
from hpcosim_sim.engine.clock import Rank, Timer
from hpcosim_sim.engine.job_runs import check_resume, is_requeueable, requeue, resume, suspend
from hpcosim_sim.engine.jobs import HELD, SimulatedJob
from hpcosim_sim.engine.site_events import JobAction, JobActionKind
from hpcosim_sim.errors import Rejection

if TYPE_CHECKING:
    from hpcosim_sim.engine.engine import Engine


MAX_TRIES = 10_000
"""Number of tries in a row in which no job is resumed, because of reservations."""


class JobActions:
    """Carries out actions at their times.

    An action on a job that is over, not submitted yet or in a state that does not permit it has no
    effect. A `resume` waits until the cores of the job are free and reservations permit the job on
    its nodes; then it precedes the scheduler. Another `suspend` revokes it.

    Args:
        engine: the engine.
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
