"""Decisions about runs on the cluster itself: kill, requeue, suspend and resume.

The rules:

* A decision is checked against the copy, and becomes an order. Its event follows when the bridge
  sees the job in its new state. If Slurm refuses the order, or the bridge does not see its effect
  in time, the decision is rejected.
* A job that is to be killed after a time of grace gets SIGTERM at once, unless it is suspended. A
  job that is to be requeued gets no signal: one that ends cannot be requeued.
* A job that ends in its time of grace ends as usual. If SIGTERM has ended it, it was killed.
* What a job will free counts as free for later decisions, as in a simulation: Slurm lets a job that
  was placed on busy nodes wait for them. It resumes jobs at once, so a resume is ordered later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from hpcosim_protocol import (
    Decision,
    JobState,
    KillJob,
    RejectionCode,
    RequeueJob,
    ResumeJob,
    SuspendJob,
)
from hpcosim_protocol.tags import snake_case
from hpcosim_sim.engine.clock import Rank, Timer
from hpcosim_sim.engine.decisions import check_grace, job_to_requeue
from hpcosim_sim.engine.job_runs import check_resume
from hpcosim_sim.engine.jobs import SimulatedJob
from hpcosim_sim.errors import Rejection
from hpcosim_slurm.commands import Action, Cancel, Requeue, Resume, Suspend, Terminate
from hpcosim_slurm.state import LiveJob
from hpcosim_slurm.worlds.live_engine import LiveEngine
from hpcosim_slurm.worlds.specs import final_state_of, is_cancelled

RunDecision = KillJob | RequeueJob | SuspendJob | ResumeJob
OrderIt = Callable[[Action, Decision, int, int], None]
JobsNow = Callable[[], Mapping[int, LiveJob]]
RejectIt = Callable[[Decision, int, int, Rejection], None]

CODES: Mapping[type[Decision], RejectionCode] = {
    KillJob: "job_not_running",
    RequeueJob: "not_requeueable",
    SuspendJob: "job_not_running",
    ResumeJob: "job_not_suspended",
}
"""Code of a decision that Slurm refuses or does not carry out."""

_BEFORE: Mapping[type[Decision], tuple[str, ...]] = {
    KillJob: ("pending", "configuring", "running", "suspended"),
    RequeueJob: ("configuring", "running", "suspended"),
    SuspendJob: ("configuring", "running"),
    ResumeJob: ("suspended",),
}
"""States of a job (`LiveJob.state`) in which Slurm has not carried out a decision yet."""

_BY_SIGTERM = 128 + 15
"""Exit code of a job that SIGTERM has ended."""


@dataclass(frozen=True, slots=True)
class _Awaited:
    """A decision whose effect the bridge has not seen yet."""

    decision: RunDecision
    seq: int
    index: int
    timer: Timer


class RunChanges:
    """Decisions about runs, their times of grace, and those whose effect was not seen yet.

    Args:
        engine: the copy of the cluster.
        jobs: returns the real jobs by number.
        timeout_s: time after which Slurm counts as having not carried out an order, s.
        order: called with an action and its decision.
        reject: called with a decision that Slurm does not carry out.

    Attributes:
        ends: final states that the scheduler has decided, by job id.
        suspended: jobs that the scheduler has suspended, as far as the bridge has seen it.
    """

    def __init__(
        self, engine: LiveEngine, jobs: JobsNow, timeout_s: float, order: OrderIt, reject: RejectIt
    ) -> None:
        self.ends: dict[int, JobState] = {}
        self.suspended: set[int] = set()
        self._engine = engine
        self._jobs = jobs
        self._timeout_s = timeout_s
        self._order = order
        self._reject = reject
        self._awaited: dict[int, _Awaited] = {}
        self._deferred: list[int] = []  # jobs to resume when their cores are free
        self._warned: dict[
            int, JobState
        ] = {}  # jobs with SIGTERM, and what they are if it ends them

    # Decisions

    def decide(self, wanted: RunDecision, seq: int, index: int, *, is_starting: bool) -> None:
        """Check a decision, and order what it wants.

        Args:
            wanted: the decision.
            seq: number of the request.
            index: position in the request.
            is_starting: whether Slurm is starting the job.

        Raises:
            Rejection: the decision is invalid.
        """
        engine, job_id = self._engine, wanted.job_id
        earlier = self._awaited.get(job_id)
        if earlier is not None and not isinstance(wanted, KillJob):
            name = snake_case(type(earlier.decision).__name__)
            why = f"job {job_id}: Slurm has not carried out the last {name} yet"
            raise Rejection(CODES[type(wanted)], why)
        do = partial(self._do, wanted, seq, index)
        if isinstance(wanted, KillJob):
            job = engine.jobs.waiting[job_id] if is_starting else engine.jobs.placed_job(job_id)
            check_grace(engine, "kill_job", wanted.grace_s)
            if wanted.grace_s > 0.0 and self._jobs()[job_id].state == "running":
                self._warned[job_id] = wanted.state
                self._order(Terminate(self._jobs()[job_id].name_in_slurm), wanted, seq, index)
            engine.graces.set(job, wanted.grace_s, do)
        elif isinstance(wanted, RequeueJob):
            engine.graces.set(job_to_requeue(engine, wanted), wanted.grace_s, do)
        elif isinstance(wanted, SuspendJob):
            do(engine.jobs.running_job(job_id))
        else:
            job = engine.jobs.suspended_job(job_id)
            check_resume(engine, job)
            do(job)

    def _do(self, wanted: RunDecision, seq: int, index: int, job: SimulatedJob) -> None:
        """Order what a decision wants, at the end of its time of grace."""
        engine, job_id = self._engine, wanted.job_id
        if job.state == "over":
            return
        self.drop(job_id)
        if isinstance(wanted, KillJob):
            self.ends[job_id] = wanted.state
        timer = engine.clock.at(engine.now_s + self._timeout_s, Rank.ALARM, self._on_late, job_id)
        self._awaited[job_id] = _Awaited(wanted, seq, index, timer)
        if isinstance(wanted, ResumeJob):
            self._deferred.append(job_id)
        else:
            self._order(_action(wanted, self._jobs()[job_id].name_in_slurm), wanted, seq, index)

    def resume_deferred(self) -> None:
        """Order the resumes whose cores are free."""
        deferred, self._deferred = self._deferred, []
        for job_id in deferred:
            each, job = self._awaited.get(job_id), self._engine.jobs.suspended.get(job_id)
            if each is None or job is None:
                continue
            try:
                check_resume(self._engine, job)
            except Rejection:
                self._deferred.append(job_id)
                continue
            action = _action(each.decision, self._jobs()[job_id].name_in_slurm)
            self._order(action, each.decision, each.seq, each.index)

    @contextmanager
    def as_decided(self) -> Iterator[None]:
        """Let the copy be as after the awaited decisions, for the time of a check.

        The caller restores the free cores.
        """
        engine, freed = self._engine, []
        for job_id, each in self._awaited.items():
            job = engine.jobs.find(job_id)
            if job is None or job.state not in ("running", "suspended"):
                continue
            resumes = isinstance(each.decision, ResumeJob)
            if resumes == (job.state == "suspended"):
                for node, cores in zip(job.nodes, job.held, strict=True):
                    engine.cluster.free[node] += -cores if resumes else cores
            if isinstance(each.decision, KillJob | RequeueJob) and job.resources is not None:
                engine.resources.release(job.resources)
                freed.append(job.resources)
        try:
            yield
        finally:
            for resources in freed:
                engine.resources.hold(resources)

    # What Slurm says

    def refused(self, seq: int, index: int) -> Decision | None:
        """Forget the decision of an order that Slurm refuses, and return it; None: not known."""
        for job_id, each in self._awaited.items():
            if (each.seq, each.index) == (seq, index):
                self.drop(job_id)
                self.ends.pop(job_id, None)
                return each.decision
        return None

    def not_warned(self, decision: Decision) -> None:
        """Forget the time of grace of a decision whose signal Slurm refuses."""
        job = self._engine.jobs.find(getattr(decision, "job_id", -1))
        if job is not None:
            self._engine.graces.drop(job)
            self._warned.pop(job.spec.job_id, None)

    def to_resume(self) -> frozenset[int]:
        """Return the jobs that the scheduler has suspended, or is suspending."""
        waits = (job for job, each in self._awaited.items() if type(each.decision) is SuspendJob)
        return frozenset((*self.suspended, *waits))

    def requeue_of(self, job_id: int) -> RequeueJob | None:
        """Return the decision by which a job is being requeued; None: there is none."""
        each = self._awaited.get(job_id)
        found = None if each is None else each.decision
        return found if isinstance(found, RequeueJob) else None

    def note(self, job: LiveJob) -> None:
        """Note the state of a job."""
        each = self._awaited.get(job.id)
        if job.state != "suspended":
            self.suspended.discard(job.id)
        elif each is not None and isinstance(each.decision, SuspendJob):
            self.suspended.add(job.id)
        if each is not None and job.state not in _BEFORE[type(each.decision)]:
            if isinstance(each.decision, RequeueJob) and job.state == "completing":
                self._stop(each)  # it waits for the end of its processes
            else:
                self.drop(job.id)
        if job.state == "pending":
            self._warned.pop(job.id, None)

    def drop(self, job_id: int) -> None:
        """Wait no longer for the effect of a decision about a job."""
        each = self._awaited.pop(job_id, None)
        if each is not None:
            self._stop(each)

    def _stop(self, each: _Awaited) -> None:
        if each.timer.call is not None:
            self._engine.clock.cancel(each.timer)

    def final_state(self, job: LiveJob) -> JobState:
        """Return the final state of a job that is over, and forget the job."""
        self.drop(job.id)
        self.suspended.discard(job.id)
        decided, warned = self.ends.pop(job.id, None), self._warned.pop(job.id, None)
        if is_cancelled(job):
            return decided or "cancelled"
        if job.slurm_state.startswith(("NODE_FAIL", "BOOT_FAIL")):
            return "node_failed"
        if job.slurm_state.startswith("PREEMPTED"):
            return "preempted"
        if warned is not None and job.exit_code == _BY_SIGTERM:
            return warned
        return final_state_of(job)

    def _on_late(self, timer: Timer) -> None:
        job_id = timer.subject
        each = self._awaited.pop(job_id, None)
        if each is None:
            return
        name, state = snake_case(type(each.decision).__name__), self._jobs()[job_id].slurm_state
        why = f"Slurm has not carried out {name} within {self._timeout_s:g} s; the job is {state}"
        code = CODES[type(each.decision)]
        self._reject(each.decision, each.seq, each.index, Rejection(code, why))


def _action(wanted: RunDecision, name: str) -> Action:
    if isinstance(wanted, KillJob):
        return Cancel(name)
    if isinstance(wanted, RequeueJob):
        return Requeue(name)
    return Suspend(name) if isinstance(wanted, SuspendJob) else Resume(name)
