"""Which waiting jobs may be allocated: holds, begin times, dependencies and limits of arrays."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from hpcosim_protocol import Dependency, Event, JobEligible, JobHeld, JobRequest
from hpcosim_server.engine.arrays import LimitedArray
from hpcosim_server.engine.clock import Clock, Rank, Timer
from hpcosim_server.engine.dependencies import NEVER, Histories, PendingDependency, met_at_s
from hpcosim_server.engine.jobs import ARRAY, BEGIN, DEPENDENCY, HELD, JobRegister, SimulatedJob
from hpcosim_server.errors import Rejection

_NO_REQUEST = JobRequest()


class Eligibility:
    """Decides which waiting jobs are eligible and emits the changes.

    A job is eligible if `SimulatedJob.blocked` is 0. Jobs without a request are eligible from
    their submission, until somebody holds or requeues them.

    Args:
        clock: clock of the simulation.
        jobs: the jobs that are not over.
        histories: the jobs as dependencies see them.
        emit: called with `JobEligible` and `JobHeld` events.
        cancel: called with a job whose dependencies can never be met, and the reason.

    Attributes:
        is_used: whether the simulation had a job with a request, or one that was held or requeued.
            Until then, no other method than `check`, `enter` and those that set it need be called.
    """

    def __init__(
        self,
        clock: Clock,
        jobs: JobRegister,
        histories: Histories,
        emit: Callable[[Event], None],
        cancel: Callable[[SimulatedJob, str], None],
    ) -> None:
        self._clock = clock
        self._jobs = jobs
        self._histories = histories
        self._emit = emit
        self._cancel = cancel
        self.is_used = False
        self._begin: dict[int, Timer] = {}
        self._arrays: dict[int, LimitedArray] = {}
        self._dependencies: dict[int, list[PendingDependency]] = {}  # by waiting job
        self._waiting_for: dict[int, list[PendingDependency]] = {}  # by other job
        self._namesakes: dict[tuple[str, str], set[int]] | None = None  # known from first use
        self._impossible: deque[SimulatedJob] = deque()
        self._is_cancelling = False

    @property
    def expects(self) -> bool:
        """Whether a timer may make a waiting job eligible."""
        return bool(self._begin)

    def check(self, job: SimulatedJob) -> None:
        """Check that a waiting job may be allocated.

        Raises:
            Rejection: the job is not eligible.
        """
        if job.blocked:
            raise Rejection(
                "job_not_eligible", f"job {job.spec.job_id} is not eligible: {self._why(job)}"
            )

    # Changes of jobs

    def enter(self, job: SimulatedJob) -> None:
        """Decide whether a job that is being submitted is eligible. It emits no event.

        Call `settle` after the submission has been reported.
        """
        if self._namesakes is not None:
            self._namesakes.setdefault(_name_of(job), set()).add(job.spec.job_id)
        request = job.spec.request
        if request is None:
            return
        self.is_used = True
        if request.hold:
            job.blocked |= HELD
        self._set_begin(job, request.begin_s)
        if request.array_id is not None:
            self._enter_array(job, request.array_id, request.array_limit)
        if request.dependencies:
            self._depend(job, request)

    def started(self, job: SimulatedJob) -> None:
        """Note that a job started."""
        if self._waiting_for:
            self._reconsider(job.spec.job_id)
            self.settle()

    def over(self, job: SimulatedJob) -> None:
        """Note that a job is over."""
        job_id, request = job.spec.job_id, job.spec.request
        if self._namesakes is not None:
            self._namesakes.get(_name_of(job), set()).discard(job_id)
        self._dependencies.pop(job_id, None)
        self._stop_begin(job_id)
        if request is not None and request.array_id in self._arrays:
            self._leave_array(job, request.array_id)
        self._reconsider(job_id)
        self.settle()

    def rejected(self, job_id: int) -> None:
        """Note that a job was rejected at its submission."""
        self._reconsider(job_id)
        self.settle()

    def requeued(
        self, job: SimulatedJob, begin_s: float | None = None, *, hold: bool = False
    ) -> None:
        """Decide whether a job that waits again is eligible.

        Call it after the `JobRequeued` event, when the job is waiting.

        Args:
            job: the job.
            begin_s: earliest time at which it is eligible again, s; None: now.
            hold: whether somebody holds the job from now on.
        """
        self.is_used = True
        if hold:
            job.blocked |= HELD
        self._set_begin(job, begin_s)
        if not job.blocked:
            self._emit(JobEligible(self._clock.now, job.spec.job_id))

    def hold(self, job: SimulatedJob) -> None:
        """Hold a waiting job."""
        self._block(job, HELD)

    def release(self, job: SimulatedJob) -> None:
        """Release a held job."""
        self._unblock(job, HELD)

    def begin_at(self, job: SimulatedJob, begin_s: float) -> None:
        """Change the begin time of a waiting job."""
        self.is_used = True
        was_eligible = not job.blocked
        self._set_begin(job, begin_s)
        if job.blocked and was_eligible:
            self._emit(JobHeld(self._clock.now, job.spec.job_id))
        elif not job.blocked and not was_eligible:
            self._emit(JobEligible(self._clock.now, job.spec.job_id))

    def limit_array(self, array_id: int, limit: int) -> None:
        """Change the maximum number of tasks of an array that run at once; 0: no limit."""
        array = self._arrays.get(array_id)
        if array is not None:
            admitted, dropped = array.set_limit(limit)
            for job in dropped:
                self._block(job, ARRAY)
            for job in admitted:
                self._unblock(job, ARRAY)

    def settle(self) -> None:
        """Cancel the jobs whose dependencies can never be met.

        The end of such a job may make further dependencies impossible. A chain of dependencies is
        as long as its workload, so this is a loop.
        """
        if self._is_cancelling:
            return
        self._is_cancelling = True
        while self._impossible:
            job = self._impossible.popleft()
            if job.state == "waiting":
                self._cancel(job, "has a dependency that can never be met")
        self._is_cancelling = False

    # Begin times

    def _set_begin(self, job: SimulatedJob, begin_s: float | None) -> None:
        job_id = job.spec.job_id
        self._stop_begin(job_id)
        job.blocked &= ~BEGIN
        if begin_s is not None and begin_s > self._clock.now:
            job.blocked |= BEGIN
            self._begin[job_id] = self._clock.at(begin_s, Rank.ELIGIBLE, self._on_begin, job)

    def _stop_begin(self, job_id: int) -> None:
        timer = self._begin.pop(job_id, None) if self._begin else None
        if timer is not None:
            self._clock.cancel(timer)

    def _on_begin(self, timer: Timer) -> None:
        job: SimulatedJob = timer.subject
        del self._begin[job.spec.job_id]
        self._unblock(job, BEGIN)

    # Arrays

    def _enter_array(self, job: SimulatedJob, array_id: int, limit: int) -> None:
        array = self._arrays.get(array_id)
        if array is None:
            array = self._arrays[array_id] = LimitedArray(limit)
        admitted, dropped = array.add(job)
        if not admitted:
            job.blocked |= ARRAY
        if dropped is not None:
            self._block(dropped, ARRAY)

    def _leave_array(self, job: SimulatedJob, array_id: int) -> None:
        admitted = self._arrays[array_id].remove(job)
        if admitted is not None:
            self._unblock(admitted, ARRAY)

    # Dependencies

    def _depend(self, job: SimulatedJob, request: JobRequest) -> None:
        job_id = job.spec.job_id
        pending = []
        for dependency in request.dependencies:
            each = PendingDependency(job, dependency)
            pending.append(each)
            for other_id in self._others(job, dependency):
                history = self._histories.of(other_id)
                met_s = None if history is None else met_at_s(each.kind, history)
                if history is not None and met_s is None:
                    each.unmet += 1
                    self._waiting_for.setdefault(other_id, []).append(each)
                elif met_s is not None:
                    each.met_s = max(each.met_s, met_s + each.delay_s)
        job.blocked |= DEPENDENCY
        self._dependencies[job_id] = pending
        if self._decide(job):
            job.blocked &= ~DEPENDENCY

    def _others(self, job: SimulatedJob, dependency: Dependency) -> list[int]:
        """Return the ids of the jobs that a dependency names."""
        if dependency.kind != "singleton":
            return list(dict.fromkeys(dependency.job_ids))
        if self._namesakes is None:
            self._namesakes = {}
            for each in self._jobs.in_order():
                self._namesakes.setdefault(_name_of(each), set()).add(each.spec.job_id)
        return sorted(self._namesakes.get(_name_of(job), set()) - {job.spec.job_id})

    def _reconsider(self, other_id: int) -> None:
        """Reconsider the dependencies on a job that started or is over."""
        pending = self._waiting_for.get(other_id)
        history = self._histories.of(other_id) if pending else None
        if not pending or history is None:
            return
        still = []
        for each in pending:
            met_s = met_at_s(each.kind, history)
            if met_s is None:
                still.append(each)
                continue
            each.unmet -= 1
            each.met_s = max(each.met_s, met_s + each.delay_s)
            if each.job.spec.job_id in self._dependencies and self._decide(each.job):
                self._unblock(each.job, DEPENDENCY)
        if still:
            self._waiting_for[other_id] = still
        else:
            del self._waiting_for[other_id]

    def _decide(self, job: SimulatedJob) -> bool:
        """Return whether the dependencies of a job are met; set a timer if they will be."""
        job_id, request = job.spec.job_id, job.spec.request or _NO_REQUEST
        pending = self._dependencies[job_id]
        combine = any if request.any_dependency else all
        if not combine(each.met_s < NEVER for each in pending):
            self._impossible.append(job)
            return False
        if not combine(each.unmet == 0 and each.met_s < NEVER for each in pending):
            return False
        known_s = [each.met_s for each in pending if each.unmet == 0 and each.met_s < NEVER]
        met_s = min(known_s) if request.any_dependency else max(known_s)
        if met_s <= self._clock.now:
            del self._dependencies[job_id]
            return True
        self._clock.at(met_s, Rank.ELIGIBLE, self._on_delay, job)
        return False

    def _on_delay(self, timer: Timer) -> None:
        job: SimulatedJob = timer.subject
        if job.spec.job_id in self._dependencies and self._decide(job):
            self._unblock(job, DEPENDENCY)

    # Events

    def _block(self, job: SimulatedJob, cause: int) -> None:
        if not job.blocked and job.state == "waiting":
            self._emit(JobHeld(self._clock.now, job.spec.job_id))
        job.blocked |= cause

    def _unblock(self, job: SimulatedJob, cause: int) -> None:
        if job.blocked == cause and job.state == "waiting":
            self._emit(JobEligible(self._clock.now, job.spec.job_id))
        job.blocked &= ~cause

    def _why(self, job: SimulatedJob) -> str:
        if job.blocked & HELD:
            return "its user or an administrator holds it"
        if job.blocked & BEGIN:
            return f"it begins at {self._begin[job.spec.job_id].at_s} s"
        if job.blocked & DEPENDENCY:
            return "a dependency is not met"
        return "the limit of its array is reached"


def _name_of(job: SimulatedJob) -> tuple[str, str]:
    request = job.spec.request
    return job.spec.user, "" if request is None else request.name
