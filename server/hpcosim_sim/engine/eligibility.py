"""Which waiting jobs may be allocated, and which can never start.

Holds, begin times, dependencies and limits of arrays decide that, and what schedulers give up.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from hpcosim_protocol import Dependency, Event, JobEligible, JobHeld, JobRequest, JobState
from hpcosim_sim.engine.clock import Clock, Rank, Timer
from hpcosim_sim.engine.jobs import ARRAY, BEGIN, DEPENDENCY, HELD, JobRegister, SimulatedJob
from hpcosim_sim.errors import Rejection
from hpcosim_sim.physics.cluster import NO_REQUEST
from hpcosim_sim.record.recording import STATES, Recording
from hpcosim_workloads.table import JobTable

# Job arrays whose number of tasks that may run at once is limited.


NEVER = math.inf
"""Time at which a condition is met that can never be met."""


class LimitedArray:
    """The tasks of an array that are not over.

    The first `limit` tasks by index are admitted. A task keeps its place until it is over, also
    while it waits again after a requeue.

    Args:
        limit: maximum number of admitted tasks; 0: no limit.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._tasks: list[tuple[int, int, SimulatedJob]] = []  # index in the array, row, job

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, job: SimulatedJob) -> tuple[bool, SimulatedJob | None]:
        """Add a task; return whether it is admitted, and the task that no longer is."""
        key = _key(job)
        place = bisect_left(self._tasks, key)
        insort(self._tasks, (*key, job), key=lambda task: task[:2])
        if not self.limit:
            return True, None
        dropped = len(self._tasks) > self.limit and place < self.limit
        return place < self.limit, self._tasks[self.limit][2] if dropped else None

    def remove(self, job: SimulatedJob) -> SimulatedJob | None:
        """Remove a task that is over; return the task that is admitted in its place."""
        place = bisect_left(self._tasks, _key(job))
        del self._tasks[place]
        if self.limit and place < self.limit <= len(self._tasks):
            return self._tasks[self.limit - 1][2]
        return None

    def set_limit(self, limit: int) -> tuple[list[SimulatedJob], list[SimulatedJob]]:
        """Change the limit; return the tasks admitted by it and those no longer admitted."""
        before = self.limit or len(self._tasks)
        after = limit or len(self._tasks)
        self.limit = limit
        jobs = [job for _, _, job in self._tasks]
        return jobs[before:after], jobs[after:before]


def _key(job: SimulatedJob) -> tuple[int, int]:
    request = job.spec.request
    return (0 if request is None else request.array_index, job.row)


class Eligibility:
    """Decides which waiting jobs are eligible and emits the changes.

    A job is eligible if `SimulatedJob.blocked` is 0. Jobs without a request are eligible from
    their submission, until somebody holds or requeues them.

    Args:
        emit: called with `JobEligible` and `JobHeld` events.
        end: called with a waiting job that can never start, its final state and the reason.
        passed: called after a set time for which a job waited has passed.

    Attributes:
        is_used: whether the simulation had a job with a request, or one that was held or requeued.
            Until then, only the methods that set it need be called.
    """

    def __init__(
        self,
        clock: Clock,
        jobs: JobRegister,
        histories: Histories,
        emit: Callable[[Event], None],
        end: Callable[[SimulatedJob, JobState, str], None],
        passed: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._jobs = jobs
        self._histories = histories
        self._emit = emit
        self._end = end
        self._passed = passed
        self.is_used = False
        self._begin: dict[int, Timer] = {}
        self._arrays: dict[int, LimitedArray] = {}
        self._given_up: dict[int, tuple[JobState, str]] = {}  # final state and reason, by job
        self._impossible: deque[SimulatedJob] = deque()
        self._is_cancelling = self._is_giving_up = False
        self._dependencies = Dependencies(
            clock,
            jobs,
            histories,
            met=lambda job: self._unblock(job, DEPENDENCY),
            impossible=self._impossible.append,
            passed=passed,
        )

    def rejection(self, job: SimulatedJob) -> Rejection:
        """Return the rejection of an allocation for a waiting job that is not eligible."""
        return Rejection(
            "job_not_eligible", f"job {job.spec.job_id} is not eligible: {self.why_blocked(job)}"
        )

    def why_blocked(self, job: SimulatedJob) -> str:
        """Return why a waiting job is not eligible."""
        if job.blocked & HELD:
            return "its user or an administrator holds it"
        if job.blocked & BEGIN:
            return f"it begins at {self._begin[job.spec.job_id].at_s} s"
        if job.blocked & DEPENDENCY:
            return "a dependency is not met"
        return "the limit of its array is reached"

    # Changes of jobs

    def enter(self, job: SimulatedJob) -> None:
        """Decide whether a job that is being submitted is eligible. It emits no event.

        Call `settle` after the submission has been reported.
        """
        self._dependencies.enter(job)
        request = job.spec.request
        if request is None:
            return
        self.is_used = True
        if request.hold:
            job.blocked |= HELD
        self._set_begin(job, request.begin_s)
        if request.array_id is not None:
            self._enter_array(job, request.array_id, request.array_limit)
        if request.dependencies and not self._dependencies.depend(job, request):
            job.blocked |= DEPENDENCY

    def started(self, job: SimulatedJob) -> None:
        """Note that a job started."""
        self.take_up(job)
        self._dependencies.reconsider(job.spec.job_id)
        self.settle()

    def over(self, job: SimulatedJob) -> None:
        """Note that a job is over."""
        job_id, request = job.spec.job_id, job.spec.request
        self._dependencies.leave(job)
        self._stop_begin(job_id)
        self._given_up.pop(job_id, None)
        if request is not None and request.array_id in self._arrays:
            self._leave_array(job, request.array_id)
        self._dependencies.reconsider(job_id)
        self.settle()

    def rejected(self, job_id: int) -> None:
        """Note that a job was rejected at its submission."""
        self._dependencies.reconsider(job_id)
        self.settle()

    def requeued(
        self, job: SimulatedJob, begin_s: float | None = None, *, hold: bool = False
    ) -> None:
        """Decide whether a job that waits again is eligible.

        Call it after the `JobRequeued` event, when the job is waiting.

        Args:
            begin_s: earliest time at which it is eligible again, s; None: now.
            hold: whether somebody holds the job from now on.
        """
        self.is_used = True
        self.take_up(job)
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
                self._end(job, "cancelled", "has a dependency that can never be met")
        self._is_cancelling = False

    def give_up_at_end(self, job: SimulatedJob, state: JobState, reason: str) -> None:
        """Note that the scheduler will not start a waiting job as it is.

        `give_up` ends it. A start, a requeue or a change of the job revokes that.

        Args:
            reason: the scheduler's reason.
        """
        self.is_used = True
        self._given_up[job.spec.job_id] = (state, reason)

    def take_up(self, job: SimulatedJob) -> None:
        """Revoke `give_up_at_end`."""
        self._given_up.pop(job.spec.job_id, None)

    def give_up(self) -> None:
        """End waiting jobs until one may start, or may become eligible at a set time.

        Jobs that somebody holds and jobs that the scheduler has given up are first, because others
        may wait for them.
        """
        if self._is_cancelling or self._is_giving_up:
            return  # the end of a job asks again
        self._is_giving_up = True
        while self._is_hopeless() and self._end_hopeless():
            pass
        self._is_giving_up = False

    def _end_hopeless(self) -> bool:
        """End hopeless jobs until one may start; return whether any ended."""

        def waits_for_jobs(job: SimulatedJob) -> bool:
            return not (job.blocked & HELD or job.spec.job_id in self._given_up)

        has_ended, waiting = False, self._jobs.waiting.values()
        for job in sorted(waiting, key=lambda job: (waits_for_jobs(job), job.row)):
            if job.state == "waiting" and self._is_hopeless_job(job):
                has_ended = True
                if job.blocked & HELD:
                    self._end(job, "cancelled", "is held for ever")
                elif job.spec.job_id in self._given_up:
                    self._end(job, *self._given_up[job.spec.job_id])
                else:
                    self._end(job, "cancelled", "waits for a job that waits")
                if not self._is_hopeless():
                    break
        return has_ended

    @property
    def expects(self) -> bool:
        """Whether a waiting job becomes eligible at a set time."""
        return bool(self._begin or self._dependencies.delays)

    def _is_hopeless(self) -> bool:
        """Return whether no waiting job may start or becomes eligible at a set time."""
        return not self.expects and all(map(self._is_hopeless_job, self._jobs.waiting.values()))

    def _is_hopeless_job(self, job: SimulatedJob) -> bool:
        return bool(job.blocked) or job.spec.job_id in self._given_up

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
        self._passed()

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

    # Events

    def _block(self, job: SimulatedJob, cause: int) -> None:
        if not job.blocked and job.state == "waiting":
            self._emit(JobHeld(self._clock.now, job.spec.job_id))
        job.blocked |= cause

    def _unblock(self, job: SimulatedJob, cause: int) -> None:
        if job.blocked == cause and job.state == "waiting":
            self._emit(JobEligible(self._clock.now, job.spec.job_id))
        job.blocked &= ~cause


class JobHistory(NamedTuple):
    """What a dependency needs to know about another job.

    Attributes:
        started_s: time of its start, s; NaN: it has not started, or it waits again.
        over_s: time of its end, s; NaN: it is not over.
        state: final state; empty: it is not over.
    """

    started_s: float = math.nan
    over_s: float = math.nan
    state: str = ""


class PendingDependency:
    """A dependency of a waiting job that is not met.

    Attributes:
        delay_s: time after the condition is met, s.
        unmet: number of other jobs that do not meet the condition.
        met_s: time at which the other jobs meet the condition with the delay, s; `NEVER`: one of
            them can never meet it.
    """

    __slots__ = ("delay_s", "job", "kind", "met_s", "unmet")

    def __init__(self, job: SimulatedJob, dependency: Dependency) -> None:
        self.job = job
        self.kind = dependency.kind
        self.delay_s = dependency.delay_s
        self.unmet = 0
        self.met_s = -math.inf


def met_at_s(kind: str, other: JobHistory | None) -> float | None:
    """Return when another job met a condition, s; `NEVER` if it never can; None: not yet.

    The rules are those of `--dependency` in the manual page of Slurm's sbatch. A job that the run
    does not have counts as a completed job of the past.

    Args:
        other: the other job; None: the run has no such job.
    """
    if other is None:
        return NEVER if kind == "afternotok" else -math.inf
    if kind == "after":
        if other.started_s == other.started_s:  # not NaN
            return other.started_s
        return other.over_s if other.state else None
    if not other.state:
        return None
    if kind == "afterok" and other.state != "completed":
        return NEVER
    if kind == "afternotok" and other.state == "completed":
        return NEVER
    return other.over_s


class Histories:
    """The jobs of a simulation as dependencies see them.

    Args:
        workload: the jobs that have been or will be submitted.
    """

    def __init__(self, jobs: JobRegister, recording: Recording, workload: JobTable) -> None:
        self._jobs = jobs
        self._recording = recording
        self._workload = workload
        self._expected: frozenset[int] | None = None  # job ids of the workload, when needed

    def of(self, job_id: int) -> JobHistory | None:
        """Return the history of a job; None: the run has no job with this id."""
        job = self._jobs.find(job_id)
        if job is not None:
            has_started = job.state not in ("waiting", "allocated")
            return JobHistory(job.started_s) if has_started else JobHistory()
        row = self._jobs.row_of(job_id)
        if row is None:
            if self._expected is None:
                self._expected = frozenset(self._workload.job_id.tolist())
            return JobHistory() if job_id in self._expected else None
        recording = self._recording
        return JobHistory(
            recording.start_s[row], recording.end_s[row], STATES[recording.state[row]]
        )


class Dependencies:
    """The dependencies of waiting jobs that are not met.

    Args:
        met: called with a waiting job when its dependencies are met.
        impossible: called with a waiting job whose dependencies can never be met.
        passed: called after a delay has passed.

    Attributes:
        delays: number of jobs whose dependencies will be met after a delay.
    """

    def __init__(
        self,
        clock: Clock,
        jobs: JobRegister,
        histories: Histories,
        met: Callable[[SimulatedJob], None],
        impossible: Callable[[SimulatedJob], None],
        passed: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._jobs = jobs
        self._histories = histories
        self._met = met
        self._impossible = impossible
        self._passed = passed
        self.delays = 0
        self._pending: dict[int, list[PendingDependency]] = {}  # by waiting job
        self._waiting_for: dict[int, list[PendingDependency]] = {}  # by other job
        self._namesakes: dict[tuple[str, str], set[int]] | None = None  # known from first use

    def enter(self, job: SimulatedJob) -> None:
        """Note a job that is being submitted."""
        if self._namesakes is not None:
            self._namesakes.setdefault(_name_of(job), set()).add(job.spec.job_id)

    def leave(self, job: SimulatedJob) -> None:
        """Note that a job is over."""
        if self._namesakes is not None:
            self._namesakes.get(_name_of(job), set()).discard(job.spec.job_id)
        self._pending.pop(job.spec.job_id, None)

    def depend(self, job: SimulatedJob, request: JobRequest) -> bool:
        """Return whether the dependencies of a job that is being submitted are met."""
        pending = []
        for dependency in request.dependencies:
            each = PendingDependency(job, dependency)
            pending.append(each)
            for other_id in self._others(job, dependency):
                history = self._histories.of(other_id)
                met_s = met_at_s(each.kind, history)
                if met_s is None:
                    each.unmet += 1
                    self._waiting_for.setdefault(other_id, []).append(each)
                else:
                    each.met_s = max(each.met_s, met_s + each.delay_s)
        self._pending[job.spec.job_id] = pending
        return self._decide(job)

    def _others(self, job: SimulatedJob, dependency: Dependency) -> list[int]:
        """Return the ids of the jobs that a dependency names."""
        if dependency.kind != "singleton":
            return list(dict.fromkeys(dependency.job_ids))
        if self._namesakes is None:
            self._namesakes = {}
            for each in self._jobs.in_order():
                self._namesakes.setdefault(_name_of(each), set()).add(each.spec.job_id)
        return sorted(self._namesakes.get(_name_of(job), set()) - {job.spec.job_id})

    def reconsider(self, other_id: int) -> None:
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
            if each.job.spec.job_id in self._pending and self._decide(each.job):
                self._met(each.job)
        if still:
            self._waiting_for[other_id] = still
        else:
            del self._waiting_for[other_id]

    def _decide(self, job: SimulatedJob) -> bool:
        """Return whether the dependencies of a job are met; set a timer if they will be."""
        job_id, request = job.spec.job_id, job.spec.request or NO_REQUEST
        pending = self._pending[job_id]
        combine = any if request.any_dependency else all
        if not combine(each.met_s < NEVER for each in pending):
            self._impossible(job)
            return False
        if not combine(each.unmet == 0 and each.met_s < NEVER for each in pending):
            return False
        known_s = [each.met_s for each in pending if each.unmet == 0 and each.met_s < NEVER]
        met_s = min(known_s) if request.any_dependency else max(known_s)
        if met_s <= self._clock.now:
            del self._pending[job_id]
            return True
        self.delays += 1
        self._clock.at(met_s, Rank.ELIGIBLE, self._on_delay, job)
        return False

    def _on_delay(self, timer: Timer) -> None:
        self.delays -= 1
        job: SimulatedJob = timer.subject
        if job.spec.job_id in self._pending and self._decide(job):
            self._met(job)
        self._passed()


def _name_of(job: SimulatedJob) -> tuple[str, str]:
    request = job.spec.request
    return job.spec.user, "" if request is None else request.name
