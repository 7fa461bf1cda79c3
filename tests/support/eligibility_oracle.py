"""Which waiting jobs are eligible: a slow reference that reads all events each time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from hpcosim_protocol import Dependency, Event, JobRequest
from hpcosim_workloads.table import JobSpec


class Entry(NamedTuple):
    """Something that happened to a job. `kind` is the type of its event, `state` its last state."""

    time_s: float
    kind: str
    job_id: int
    state: str


class EligibilityOracle:
    """Decides from the log of events which jobs are eligible.

    Holds, begin times of requeues and limits of arrays are noted by the test.

    Args:
        jobs: the workload.
    """

    def __init__(self, jobs: Sequence[JobSpec]) -> None:
        self.jobs = {job.job_id: job for job in jobs}
        self.log: list[Entry] = []
        self.held = {job.job_id for job in jobs if _request(job).hold}
        self.begin_s = {job.job_id: _request(job).begin_s or -math.inf for job in jobs}
        self.limits: dict[int, int] = {}

    def hear(self, events: Sequence[Event]) -> None:
        """Append events to the log."""
        for event in events:
            job_id = getattr(event, "job_id", None)
            if job_id is not None:
                kind = type(event).__name__
                self.log.append(Entry(event.time_s, kind, job_id, getattr(event, "state", "")))

    def submitted(self) -> list[int]:
        """Return the jobs submitted so far, in this order."""
        return [entry.job_id for entry in self.log if entry.kind == "JobSubmitted"]

    def is_over(self, job_id: int) -> bool:
        """Return whether a job is over."""
        return any(e.kind == "JobCompleted" for e in self.log if e.job_id == job_id)

    def eligible(self, job_id: int, now_s: float) -> bool:
        """Return whether a waiting job is eligible."""
        request = _request(self.jobs[job_id])
        return (
            job_id not in self.held
            and self.begin_s[job_id] <= now_s
            and self._has_place(job_id, request)
            and self.met(job_id, now_s)
        )

    def _has_place(self, job_id: int, request: JobRequest) -> bool:
        tasks = [
            other
            for other in self.submitted()
            if not self.is_over(other) and _request(self.jobs[other]).array_id == request.array_id
        ]
        limit = self.limits.get(request.array_id or 0, request.array_limit)
        if request.array_id is None or not limit:
            return True
        tasks.sort(key=lambda other: _request(self.jobs[other]).array_index)
        return job_id in tasks[:limit]

    def met(self, job_id: int, now_s: float) -> bool:
        """Return whether the dependencies of a job are met."""
        request = _request(self.jobs[job_id])
        if not request.dependencies:
            return True
        times_s = [self._met_s(job_id, each) for each in request.dependencies]
        return (min if request.any_dependency else max)(times_s) <= now_s

    def _met_s(self, job_id: int, dependency: Dependency) -> float:
        """Return when a dependency of a job was met; infinity: not yet, or never."""
        others = dependency.job_ids
        if dependency.kind == "singleton":
            before = self.log[: self._place_of(job_id)]
            over = {e.job_id for e in before if e.kind == "JobCompleted"}
            earlier = {e.job_id for e in before if e.kind == "JobSubmitted"} - over
            others = tuple(o for o in earlier if _name(self.jobs[o]) == _name(self.jobs[job_id]))
        found = [self._other_met_s(job_id, other, dependency.kind) for other in others]
        return max((at_s + dependency.delay_s for at_s in found), default=-math.inf)

    def _place_of(self, job_id: int) -> int:
        """Return the place of a job's submission in the log."""
        return next(
            i for i, e in enumerate(self.log) if (e.job_id, e.kind) == (job_id, "JobSubmitted")
        )

    def _other_met_s(self, job_id: int, other: int, kind: str) -> float:
        if other not in self.jobs:
            return math.inf if kind == "afternotok" else -math.inf
        place = self._place_of(job_id)
        state, since_s = "", math.inf
        for number, entry in enumerate(self.log):
            if entry.job_id == other:
                if entry.kind == "JobCompleted":
                    good = {
                        "afterok": entry.state == "completed",
                        "afternotok": entry.state != "completed",
                    }.get(kind, True)
                    started_s = since_s if kind == "after" and state == "started" else entry.time_s
                    return started_s if good else math.inf
                if entry.kind == "JobStarted":
                    state, since_s = "started", entry.time_s
                if entry.kind == "JobRequeued":
                    state = "waiting"
            if kind == "after" and number >= place and state == "started":
                return since_s
        return math.inf


def _request(job: JobSpec) -> JobRequest:
    return job.request or JobRequest()


def _name(job: JobSpec) -> tuple[str, str]:
    return job.user, _request(job).name
