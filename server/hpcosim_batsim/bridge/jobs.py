"""Jobs and profiles of a run: those of its workloads, and those the scheduler registers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hpcosim_batsim.inputs.tasks import HostTask
from hpcosim_batsim.inputs.workload_json import check_sequences, in_order, parse_job, parse_profile
from hpcosim_batsim.inputs.workload_model import BatsimJob, BatsimProfile, BatsimWorkload, Delay
from hpcosim_workloads.table import JobSpec, JobTable, job_table

FinalState = Literal[
    "COMPLETED_SUCCESSFULLY",
    "COMPLETED_FAILED",
    "COMPLETED_WALLTIME_REACHED",
    "COMPLETED_KILLED",
    "REJECTED",
]
FINAL: Mapping[str, FinalState] = {
    "completed": "COMPLETED_SUCCESSFULLY",
    "timeout": "COMPLETED_WALLTIME_REACHED",
    "killed": "COMPLETED_KILLED",
    "node_failed": "COMPLETED_FAILED",
    "rejected": "REJECTED",
}
"""Batsim's final state for each final `JobState` of the simulator."""

STOPPED, CANCELLED = -1, -2
"""Return codes of jobs that do not complete: at the walltime or in a delay, and in a computation.

Batsim cancels the computation of a job that the scheduler kills; it stops the process of a delay.
"""


@dataclass(slots=True, eq=False)
class RunJob:
    """A job of a run.

    Attributes:
        full_id: its id in messages, `WORKLOAD!NAME`.
        dynamic: the scheduler registered it.
        final: its final state; None: it has not ended.
        task: its task on these hosts; None: it has not started.
        metadata: text that the scheduler set, for the results.
    """

    source: BatsimJob
    full_id: str
    profile: BatsimProfile
    number: int
    dynamic: bool
    state: Literal["not_submitted", "waiting", "running", "ended"] = "not_submitted"
    final: FinalState | None = None
    hosts: Sequence[int] = ()
    task: HostTask | None = None
    started_s: float = math.nan
    kill_requested: bool = False
    return_code: int = STOPPED
    metadata: str = ""

    @property
    def walltime_s(self) -> float:
        """Its walltime, s; infinity: none."""
        return math.inf if self.source.walltime_s is None else self.source.walltime_s

    def run_s(self, duration_s: float) -> float:
        """Return the run time for the simulation, s."""
        if isinstance(self.profile, Delay) and duration_s == self.walltime_s:
            # Batsim kills a delay whose duration equals the walltime, but not a computation.
            return math.nextafter(duration_s, math.inf)
        return duration_s

    def spec(self, submit_s: float) -> JobSpec:
        """Return the simulation's job. Run times except those of delays are set at the start."""
        duration_s = self.profile.delay_s if isinstance(self.profile, Delay) else 1.0
        run_s = self.run_s(duration_s)
        return JobSpec(self.number, submit_s, run_s, self.walltime_s, self.source.res, "cores")


class JobRegistry:
    """All jobs and profiles of a run.

    Attributes:
        jobs: the jobs; the index is the job's number.
    """

    def __init__(self, workloads: Sequence[BatsimWorkload]) -> None:
        self.profiles: dict[str, dict[str, BatsimProfile]] = {
            workload.name: dict(workload.profiles) for workload in workloads
        }
        self.jobs: list[RunJob] = []
        self._by_id: dict[str, RunJob] = {}
        for job in in_order(workloads):
            self._add(job, dynamic=False)

    def table(self) -> JobTable:
        """Return the jobs as the simulation's workload."""
        specs = [job.spec(max(job.source.submit_s, 0.0)) for job in self.jobs]
        return job_table(
            job_id=[spec.job_id for spec in specs],
            submit_s=[spec.submit_s for spec in specs],
            run_s=[spec.run_s for spec in specs],
            requested_s=[spec.requested_s for spec in specs],
            cores=[spec.cores for spec in specs],
        )

    def find(self, job_id: str) -> RunJob:
        """Return a job by its full id."""
        job = self._by_id.get(job_id)
        if job is None:
            raise ValueError(f"there is no job {job_id!r}; expected an id WORKLOAD!NAME")
        return job

    def profiles_of(self, job: RunJob) -> Mapping[str, BatsimProfile]:
        """Return the profiles of a job's workload by name."""
        return self.profiles[job.source.workload]

    def register_profile(self, workload: str, name: str, raw: Mapping[str, Any]) -> None:
        """Add a profile. A second registration of the same profile has no effect."""
        profile = parse_profile(name, raw, where="profile")
        registered = self.profiles.setdefault(workload, {})
        earlier = registered.get(name)
        if earlier is not None and earlier.raw != profile.raw:
            raise ValueError(f"workload {workload!r} has a different profile {name!r}")
        check_sequences([profile], {**registered, name: profile})
        registered[name] = profile

    def register_job(self, job_id: str, raw: Mapping[str, Any]) -> RunJob:
        """Add a job."""
        workload, separator, name = job_id.partition("!")
        if not separator or not name:
            raise ValueError(f"job_id: expected WORKLOAD!NAME, got {job_id!r}")
        if job_id in self._by_id:
            raise ValueError(f"job {job_id!r} exists already; expected a new id")
        if workload not in self.profiles:
            raise ValueError(f"there is no workload {workload!r}: register a profile in it first")
        job = parse_job({**raw, "id": job_id}, workload)
        if job.profile not in self.profiles[workload]:
            raise ValueError(f"workload {workload!r} has no profile {job.profile!r}")
        return self._add(job, dynamic=True)

    def _add(self, source: BatsimJob, *, dynamic: bool) -> RunJob:
        profile = self.profiles[source.workload][source.profile]
        job = RunJob(source, source.full_id, profile, len(self.jobs), dynamic)
        self.jobs.append(job)
        self._by_id[job.full_id] = job
        return job
