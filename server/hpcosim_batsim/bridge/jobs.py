"""Jobs and profiles of a run: those of its workloads, and those the scheduler registers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hpcosim_batsim.bridge.event_queue import NOT_WAITING, Wait
from hpcosim_batsim.inputs.tasks import HostTask, Placed, Storage
from hpcosim_batsim.inputs.workload_json import (
    ParseProfile,
    check_sequences,
    in_order,
    parse_job,
    parse_profile,
)
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
        profile_workload: the workload that its profile belongs to.
        final: its final state; None: it has not ended.
        task: its task on these hosts; None: it has not started.
        processes: the host of each process, in order; placed: of parts with other processes.
        storage: its storage hosts.
        wait: since its start.
        metadata: text that the scheduler set, for the results.
    """

    source: BatsimJob
    full_id: str
    profile: BatsimProfile
    number: int
    dynamic: bool
    profile_workload: str
    state: Literal["not_submitted", "waiting", "running", "ended"] = "not_submitted"
    final: FinalState | None = None
    hosts: Sequence[int] = ()
    task: HostTask | None = None
    processes: Sequence[int] = ()
    placed: Placed = field(default_factory=dict)
    storage: Storage = field(default_factory=dict)
    started_s: float = math.nan
    wait: Wait = NOT_WAITING
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
            self._add(job, job.workload, dynamic=False)

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
        """Return the profiles of the workload of a job's profile by name."""
        return self.profiles[job.profile_workload]

    def register_profile(
        self,
        workload: str,
        name: str,
        raw: Mapping[str, Any],
        parse: ParseProfile = parse_profile,
        *,
        again: bool = True,
    ) -> None:
        """Add a profile.

        Args:
            again: a second registration of the same profile has no effect; otherwise it is an
                error.
        """
        profile = parse(name, raw, "", "profile")
        registered = self.profiles.setdefault(workload, {})
        earlier = registered.get(name)
        if earlier is not None and not again:
            raise ValueError(f"workload {workload!r} has a profile {name!r} already")
        if earlier is not None and earlier.raw != profile.raw:
            raise ValueError(f"workload {workload!r} has a different profile {name!r}")
        check_sequences([profile], {**registered, name: profile})
        registered[name] = profile

    def register_job(
        self, job_id: str, raw: Mapping[str, Any], profile_workload: str | None = None
    ) -> RunJob:
        """Add a job.

        Args:
            profile_workload: the workload that its profile belongs to; default: that of the job.
        """
        workload, separator, name = job_id.partition("!")
        if not separator or not name:
            raise ValueError(f"job_id: expected WORKLOAD!NAME, got {job_id!r}")
        if job_id in self._by_id:
            raise ValueError(f"job {job_id!r} exists already; expected a new id")
        owner = workload if profile_workload is None else profile_workload
        if owner not in self.profiles:
            raise ValueError(f"there is no workload {owner!r}: register a profile in it first")
        job = parse_job({**raw, "id": job_id}, workload)
        if job.profile not in self.profiles[owner]:
            raise ValueError(f"workload {owner!r} has no profile {job.profile!r}")
        return self._add(job, owner, dynamic=True)

    def _add(self, source: BatsimJob, owner: str, *, dynamic: bool) -> RunJob:
        profile = self.profiles[owner][source.profile]
        job = RunJob(source, source.full_id, profile, len(self.jobs), dynamic, owner)
        self.jobs.append(job)
        self._by_id[job.full_id] = job
        return job
