"""The jobs of a simulation and their states.

A job changes its state along these arrows:

    waiting -> allocated -> running -> over
       |           |         |   ^      ^
       |           |         v   |      |
       |           |       suspended ---|
       |-> running |--------------------|
       |--------------------------------|

A requeue moves an allocated, running or suspended job back to `waiting`.

* `waiting`: the job is submitted and has no allocation.
* `allocated`: the job has an allocation, and at least one of its nodes is not on yet.
* `running`: the tasks of the job run on its nodes.
* `suspended`: the job keeps its nodes, and its tasks have freed their cores.
* `over`: the job has ended or was rejected. The recording stores its final state, a `JobState` of
  the protocol such as `completed`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from hpcosim_protocol import Checkpointing, JobStarted, JobSubmitted, RejectionCode
from hpcosim_sim.engine.clock import Timer
from hpcosim_sim.errors import IllegalTransition, Rejection
from hpcosim_sim.physics.cluster import AllocationPart
from hpcosim_sim.physics.execution import Place, SharedProcessor
from hpcosim_sim.physics.resources import HeldResources
from hpcosim_sim.record.recording import Recording
from hpcosim_workloads.table import JobSpec

JobStage = Literal["waiting", "allocated", "running", "suspended", "over"]

TRANSITIONS: Mapping[JobStage, frozenset[JobStage]] = {
    "waiting": frozenset({"allocated", "running", "over"}),
    "allocated": frozenset({"running", "waiting", "over"}),
    "running": frozenset({"suspended", "waiting", "over"}),
    "suspended": frozenset({"running", "waiting", "over"}),
    "over": frozenset(),
}
"""The states that may follow each state."""

# Causes for which a waiting job is not eligible: bits of `SimulatedJob.blocked`.
HELD, BEGIN, DEPENDENCY, ARRAY = 1, 2, 4, 8

EMPTY: list[Any] = []  # shared initial value of all jobs: replaced, never mutated

_STATE_TEXT: Mapping[JobStage, str] = {
    "waiting": "waiting",
    "allocated": "allocated (its nodes are being switched on)",
    "running": "running",
    "suspended": "suspended",
}


LeftAt = Mapping[Place, tuple[float, float]]
"""Work that is left on each place of a job that shares processors, and the run time of the whole
job on the cores of the place, s."""

TOLERANCE = 1e-9  # relative: a checkpoint that ends now is complete


class SimulatedJob:
    """A submitted job.

    Attributes:
        state: a key of `TRANSITIONS`; only `JobRegister` changes it.
        allocated_s: time of the allocation, s; NaN before it.
        started_s: start time, s; NaN before the start.
        nodes: allocated node numbers; empty before the allocation.
        tasks: number of tasks on each of `nodes`.
        held: number of cores allocated on each of `nodes`; all cores with `whole_nodes`.
        parts: placement of the tasks on processors; empty before the start.
        nodes_off: number of allocated nodes that are not on yet.
        end: timer of the end or of the walltime limit; None if no such timer is set.
        shared: processors with contention on which the job runs.
        shares_left: number of `shared` on which the job has operations left.
        blocked: causes for which the job is not eligible; 0: it is eligible while it waits.
        resources: memory, devices and licences that the job holds; None: none.
        progress: how far the job is; None: it was not suspended and writes no checkpoints.
    """

    __slots__ = (
        "allocated_s",
        "blocked",
        "end",
        "held",
        "nodes",
        "nodes_off",
        "parts",
        "progress",
        "resources",
        "row",
        "shared",
        "shares_left",
        "spec",
        "started_s",
        "state",
        "tasks",
    )

    def __init__(self, spec: JobSpec, row: int) -> None:
        self.spec = spec
        self.row = row
        self.state: JobStage = "waiting"
        self.allocated_s = math.nan
        self.started_s = math.nan
        self.nodes: list[int] = EMPTY
        self.tasks: list[int] = EMPTY
        self.held: list[int] = EMPTY
        self.parts: list[AllocationPart] = EMPTY
        self.nodes_off = 0
        self.end: Timer | None = None
        self.shared: list[SharedProcessor] = EMPTY
        self.shares_left = 0
        self.blocked = 0
        self.resources: HeldResources | None = None
        self.progress: Progress | None = None


class JobRegister:
    """The submitted jobs that are not over, by state.

    Args:
        recording: holds the job ids of all submitted jobs.

    Attributes:
        waiting, allocated, running, suspended: the jobs in each state by job id, in the order in
            which they entered the state.
    """

    def __init__(self, recording: Recording) -> None:
        self.waiting: dict[int, SimulatedJob] = {}
        self.allocated: dict[int, SimulatedJob] = {}
        self.running: dict[int, SimulatedJob] = {}
        self.suspended: dict[int, SimulatedJob] = {}
        self._by_state: Mapping[JobStage, dict[int, SimulatedJob]] = {
            "waiting": self.waiting,
            "allocated": self.allocated,
            "running": self.running,
            "suspended": self.suspended,
        }
        self._recording = recording
        self._rows: dict[int, int] = {}  # updated lazily by `row_of`

    def add(self, job: SimulatedJob) -> None:
        """Add a job that was just submitted."""
        self.waiting[job.spec.job_id] = job

    def move(self, job: SimulatedJob, after: JobStage) -> None:
        """Move a job to another state."""
        before, job_id = job.state, job.spec.job_id
        if after not in TRANSITIONS[before]:
            raise IllegalTransition(f"job {job_id}", before, after)
        del self._by_state[before][job_id]
        job.state = after
        if after != "over":
            self._by_state[after][job_id] = job

    @property
    def is_empty(self) -> bool:
        """Whether every submitted job is over."""
        return not (self.waiting or self.running or self.allocated or self.suspended)

    @property
    def has_placed(self) -> bool:
        """Whether a job has an allocation."""
        return any(jobs for stage, jobs in self._by_state.items() if stage != "waiting")

    def in_order(self) -> list[SimulatedJob]:
        """Return the jobs that are not over, in order of submission."""
        jobs = [job for held in self._by_state.values() for job in held.values()]
        return sorted(jobs, key=lambda job: job.row)

    def waiting_job(self, job_id: int) -> SimulatedJob:
        """Return a waiting job."""
        job = self.waiting.get(job_id)
        if job is None:
            raise self._wrong_state(job_id, "job_not_waiting", "a waiting job")
        return job

    def placed_job(self, job_id: int) -> SimulatedJob:
        """Return a job that has an allocation."""
        for jobs in (self.running, self.allocated, self.suspended):
            if job_id in jobs:
                return jobs[job_id]
        raise self._wrong_state(job_id, "job_not_running", "a running, suspended or allocated job")

    def running_job(self, job_id: int) -> SimulatedJob:
        """Return a running job."""
        job = self.running.get(job_id)
        if job is None:
            raise self._wrong_state(job_id, "job_not_running", "a running job")
        return job

    def suspended_job(self, job_id: int) -> SimulatedJob:
        """Return a suspended job."""
        job = self.suspended.get(job_id)
        if job is None:
            raise self._wrong_state(job_id, "job_not_suspended", "a suspended job")
        return job

    def was_submitted(self, job_id: int) -> bool:
        """Return whether a job with this id has been submitted."""
        return self.row_of(job_id) is not None

    def row_of(self, job_id: int) -> int | None:
        """Return the row of a submitted job; None: no such job has been submitted."""
        # Only dependencies and invalid decisions need the rows; other jobs do not pay for them.
        known, submitted = len(self._rows), self._recording.job_id
        if known < len(submitted):
            self._rows.update(zip(submitted[known:], range(known, len(submitted)), strict=True))
        return self._rows.get(job_id)

    def find(self, job_id: int) -> SimulatedJob | None:
        """Return a submitted job that is not over; None: there is none with this id."""
        for jobs in self._by_state.values():
            if job_id in jobs:
                return jobs[job_id]
        return None

    def _wrong_state(self, job_id: int, code: RejectionCode, expected: str) -> Rejection:
        """Return the rejection of a decision about a job in an unexpected state."""
        for state, jobs in self._by_state.items():
            if job_id in jobs:
                return Rejection(code, f"job {job_id} is {_STATE_TEXT[state]}; expected {expected}")
        if self.was_submitted(job_id):
            return Rejection(code, f"job {job_id} is over; expected {expected}")
        return Rejection("unknown_job", f"job {job_id} does not exist or is not submitted yet")


# Events of a job, made from its state.

FIRST_OPTIONAL = JobSpec._fields.index("memory_mb")
AFTER_OPTIONAL = JobSpec._fields.index("request") + 1
NO_OPTIONS = tuple(
    JobSpec._field_defaults[name] for name in JobSpec._fields[FIRST_OPTIONAL:AFTER_OPTIONAL]
)


def start_of(job: SimulatedJob) -> JobStarted:
    """Return the event of the last start of a job."""
    event = JobStarted(job.started_s, job.spec.job_id, job.nodes, job.tasks)
    if job.resources is not None and job.resources.devices:
        event.gres = job.resources.device_numbers()
    return event


def submission_of(spec: JobSpec) -> JobSubmitted:
    """Return the submission event of a job that is eligible."""
    event = JobSubmitted(spec.submit_s, spec.job_id, spec.cores, spec.requested_s, spec.placement)
    if spec[FIRST_OPTIONAL:AFTER_OPTIONAL] == NO_OPTIONS:
        return event  # the usual case
    # The encoder omits fields that keep their default.
    if spec.memory_mb:
        event.memory_mb = spec.memory_mb
    if spec.memory_volume_mb:
        event.memory_volume_mb = spec.memory_volume_mb
    if spec.max_energy_j < math.inf:
        event.max_energy_j = spec.max_energy_j
    if spec.profile:
        event.profile = spec.profile
    if spec.deadline_s < math.inf:
        event.deadline_s = spec.deadline_s
    if spec.user:
        event.user = spec.user
    if spec.group:
        event.group = spec.group
    if spec.account:
        event.account = spec.account
    if spec.qos:
        event.qos = spec.qos
    if spec.partition:
        event.partitions = tuple(spec.partition.split(","))
    if spec.request is not None:
        event.request = spec.request
    return event


def ineligible_submission_of(spec: JobSpec) -> JobSubmitted:
    """Return the submission event of a job that is not eligible."""
    event = submission_of(spec)
    event.eligible = False
    return event


class Progress:
    """The progress of a job that was suspended or writes checkpoints.

    Args:
        checkpointing: checkpoints of the job; None: none.

    Attributes:
        interval_s: computing time between two checkpoints, s; infinity: no checkpoints.
        saved: fraction of the job's computing that the last complete checkpoint has, 0 to 1.
        total_s: work of the current run, s.
        left_s: work that was left at the begin of the current period, s.
        left_at: work that was left on each place at the last suspension; empty: the job did not
            share processors, or its run was not suspended.
    """

    __slots__ = (
        "_alone_s",
        "_begun_s",
        "_cost_s",
        "_restart_s",
        "_used_s",
        "interval_s",
        "left_at",
        "left_s",
        "saved",
        "total_s",
    )

    def __init__(self, checkpointing: Checkpointing | None) -> None:
        options = checkpointing or Checkpointing(0.0)
        self.interval_s = options.interval_s or math.inf
        self._cost_s = options.cost_s
        self._restart_s = options.restart_s
        self.saved = 0.0
        self._begun_s = self._used_s = self._alone_s = 0.0
        self.total_s = self.left_s = 0.0
        self.left_at: LeftAt = {}

    def begin(self, now_s: float, alone_s: float) -> None:
        """Begin a run.

        Args:
            alone_s: run time of the whole job on the slowest of its cores, without overhead, s.
        """
        self._begun_s, self._used_s, self._alone_s = now_s, 0.0, alone_s
        self.total_s = self.left_s = self.work_s(alone_s)
        self.left_at = {}

    def suspend(self, now_s: float, left_at: LeftAt) -> None:
        """Note that the job is suspended."""
        self.left_s = self._left_s(now_s, left_at)
        self.left_at = left_at
        self._used_s += now_s - self._begun_s

    def resume(self, now_s: float, alone_s: float) -> None:
        """Begin the next period of the run, perhaps on other processors of the same nodes."""
        self._begun_s = now_s
        if alone_s != self._alone_s:
            left = self.left_s / self.total_s if self.total_s else 0.0
            self._alone_s, self.total_s = alone_s, self.work_s(alone_s)
            self.left_s = left * self.total_s

    def interrupt(self, now_s: float, left_at: LeftAt, is_suspended: bool) -> float:
        """End the run before the end of the job; keep what the last checkpoint has.

        Args:
            left_at: as in `suspend`.
            is_suspended: whether the job is suspended.

        Returns:
            Run time that is lost, s: the part since the last complete checkpoint of the run.
        """
        if not is_suspended:
            self.suspend(now_s, left_at)
        executed_s = self.total_s - self.left_s
        count = self._complete(executed_s)
        kept_s = self._reading_s + count * (self.interval_s + self._cost_s) if count else 0.0
        if count:
            self.saved = min(self.saved + count * self.interval_s / self._alone_s, 1.0)
        return self._used_s * (1.0 - kept_s / executed_s) if executed_s > 0.0 else self._used_s

    def used_s(self, now_s: float, is_suspended: bool = False) -> float:
        """Return the run time of the current run without suspensions, s."""
        return self._used_s + (0.0 if is_suspended else now_s - self._begun_s)

    def work_s(self, alone_s: float) -> float:
        """Return the work of the current run on cores that need `alone_s` for the whole job, s."""
        left_s = alone_s * (1.0 - self.saved)
        writing_s = self._checkpoints * self._cost_s if self._cost_s else 0.0
        return self._reading_s + left_s + writing_s

    def left_on(self, place: Place, alone_s: float) -> float:
        """Return the work that is left on a place whose cores need `alone_s` for the job, s."""
        if place in self.left_at:
            return self.left_at[place][0]
        return self.work_s(alone_s) * (self.left_s / self.total_s if self.total_s else 0.0)

    @property
    def _reading_s(self) -> float:
        return self._restart_s if self.saved else 0.0

    @property
    def _checkpoints(self) -> int:
        """Number of checkpoints that the current run writes if it is not interrupted."""
        intervals = self._alone_s * (1.0 - self.saved) / self.interval_s
        return max(math.ceil(intervals * (1.0 - TOLERANCE)) - 1, 0)

    def _complete(self, executed_s: float) -> int:
        """Return the number of checkpoints that are complete after a part of the work."""
        if self.interval_s == math.inf:
            return 0
        intervals = (executed_s - self._reading_s) / (self.interval_s + self._cost_s)
        return min(max(math.floor(intervals * (1.0 + TOLERANCE)), 0), self._checkpoints)

    def _left_s(self, now_s: float, left_at: LeftAt) -> float:
        if left_at:  # the slowest place decides
            works = [(left_s, self.work_s(alone_s)) for left_s, alone_s in left_at.values()]
            shares = [left_s / work_s for left_s, work_s in works if work_s]
            return self.total_s * max(shares, default=0.0)
        return max(self.left_s - (now_s - self._begun_s), 0.0)
