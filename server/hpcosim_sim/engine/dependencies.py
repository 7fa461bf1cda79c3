"""Dependencies of jobs on other jobs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from hpcosim_protocol import Dependency, JobRequest
from hpcosim_sim.engine.clock import Clock, Rank, Timer
from hpcosim_sim.engine.jobs import JobRegister, SimulatedJob
from hpcosim_sim.physics.site import NO_REQUEST
from hpcosim_sim.record.recording import STATES, Recording
from hpcosim_workloads.table import JobTable

NEVER = math.inf
"""Time at which a condition is met that can never be met."""


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
        job: the waiting job.
        kind: kind of the dependency.
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
        kind: kind of the dependency.
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
        jobs: the jobs that are not over.
        recording: the submitted jobs.
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
        clock: clock of the simulation.
        jobs: the jobs that are not over.
        histories: the jobs as dependencies see them.
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
