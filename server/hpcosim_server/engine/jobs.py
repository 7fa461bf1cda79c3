"""The jobs of a simulation and their states.

A job goes through these states, and only along these arrows:

    waiting -> allocated -> running -> over
       |           |                    ^
       |-> running |--------------------|
       |--------------------------------|

* `waiting`: it was submitted; it holds nothing.
* `allocated`: it holds its nodes, and at least one of them is not on yet.
* `running`: its tasks run on its nodes.
* `over`: it holds nothing, and only the recording knows it; why it ended is a `JobState` of the
  protocol, such as `completed`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from hpcosim_protocol import RejectionCode
from hpcosim_server.engine.clock import Timer
from hpcosim_server.errors import IllegalTransition, Rejection
from hpcosim_server.physics.cluster import Part
from hpcosim_server.physics.contention import SharedProcessor
from hpcosim_server.record.recording import Recording
from hpcosim_workloads.table import JobSpec

JobStage = Literal["waiting", "allocated", "running", "over"]

TRANSITIONS: Mapping[JobStage, frozenset[JobStage]] = {
    "waiting": frozenset({"allocated", "running", "over"}),
    "allocated": frozenset({"running", "over"}),
    "running": frozenset({"over"}),
    "over": frozenset(),
}
"""The states that may follow each state."""

_EMPTY: list[Any] = []  # of all jobs; they replace it and never change it

_HOLDS_IT: Mapping[JobStage, str] = {
    "waiting": "is waiting",
    "allocated": "has its nodes, and waits for them to be on",
    "running": "is running",
}


class SimulatedJob:
    """A job that was submitted.

    Attributes:
        spec: what the workload says of it.
        row: its row in the recording.
        state: one of `TRANSITIONS`; only `JobRegister` changes it.
        allocated_s: when it was given its nodes, s; NaN: not yet.
        started_s: when it started, s; NaN: not yet.
        nodes: the nodes it was given.
        tasks: how many of its tasks run on each of `nodes`.
        held: how many cores it holds of each of `nodes`.
        parts: where its tasks run; empty before it starts.
        off: how many of its nodes are not on yet.
        end: the timer of its end or of its requested time; None: there is none.
        shared: the processors it runs on, if other jobs may slow it down there.
        shares_left: on how many of `shared` it still has work to do.
    """

    __slots__ = (
        "allocated_s",
        "end",
        "held",
        "nodes",
        "off",
        "parts",
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
        self.nodes: list[int] = _EMPTY
        self.tasks: list[int] = _EMPTY
        self.held: list[int] = _EMPTY
        self.parts: list[Part] = _EMPTY
        self.off = 0
        self.end: Timer | None = None
        self.shared: list[SharedProcessor] = _EMPTY
        self.shares_left = 0


class JobRegister:
    """Every job that was submitted and is not over, by its state.

    Args:
        recording: knows the numbers of all jobs that were ever submitted.

    Attributes:
        waiting, allocated, running: the jobs in each state by their numbers, in the order they
            entered it.
    """

    def __init__(self, recording: Recording) -> None:
        self.waiting: dict[int, SimulatedJob] = {}
        self.allocated: dict[int, SimulatedJob] = {}
        self.running: dict[int, SimulatedJob] = {}
        self._by_state: Mapping[JobStage, dict[int, SimulatedJob]] = {
            "waiting": self.waiting,
            "allocated": self.allocated,
            "running": self.running,
        }
        self._recording = recording
        self._submitted: set[int] = set()  # brought up to date when it is looked into

    def add(self, job: SimulatedJob) -> None:
        """Add a job that was just submitted."""
        self.waiting[job.spec.job_id] = job

    def move(self, job: SimulatedJob, after: JobStage) -> None:
        """Move a job to another state.

        Raises:
            IllegalTransition: that state may not follow the one it is in.
        """
        before, job_id = job.state, job.spec.job_id
        if after not in TRANSITIONS[before]:
            raise IllegalTransition(f"job {job_id}", before, after)
        del self._by_state[before][job_id]
        job.state = after
        if after != "over":
            self._by_state[after][job_id] = job

    @property
    def is_empty(self) -> bool:
        """Whether every job submitted so far is over."""
        return not (self.waiting or self.running or self.allocated)

    def in_order(self) -> list[SimulatedJob]:
        """Return the jobs that are not over in the order of their submission."""
        jobs = [job for held in self._by_state.values() for job in held.values()]
        return sorted(jobs, key=lambda job: job.row)

    def waiting_job(self, job_id: int) -> SimulatedJob:
        """Return a job that waits.

        Raises:
            Rejection: there is no such job, or it does not wait.
        """
        job = self.waiting.get(job_id)
        if job is None:
            raise self._elsewhere(job_id, "job_not_waiting")
        return job

    def placed_job(self, job_id: int) -> SimulatedJob:
        """Return a job that holds nodes.

        Raises:
            Rejection: there is no such job, or it holds none.
        """
        job = self.running.get(job_id) or self.allocated.get(job_id)
        if job is None:
            raise self._elsewhere(job_id, "job_not_running")
        return job

    def was_submitted(self, job_id: int) -> bool:
        """Tell whether a job of this number was ever submitted."""
        # Only clients in error ask, so only they pay for the set.
        self._submitted.update(self._recording.job_id[len(self._submitted) :])
        return job_id in self._submitted

    def _elsewhere(self, job_id: int, code: RejectionCode) -> Rejection:
        """Return the rejection of a decision that expects a job in another state."""
        for state, jobs in self._by_state.items():
            if job_id in jobs:
                return Rejection(code, f"job {job_id} {_HOLDS_IT[state]}")
        if self.was_submitted(job_id):
            return Rejection(code, f"job {job_id} is over")
        return Rejection("unknown_job", f"there is no job {job_id}, or it is not submitted yet")
