"""The jobs and profiles of a run: those of its workloads, and those the scheduler registers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from hpcosim_batsim.inputs.model import FinalState
from hpcosim_batsim.inputs.profile_json import check_sequences, parse_profile
from hpcosim_batsim.inputs.profiles import Task
from hpcosim_batsim.inputs.workload_json import in_order, parse_job
from hpcosim_batsim.inputs.workload_model import Composed, Delay, Job, Profile, Workload
from hpcosim_workloads.table import JobSpec, JobTable, job_table


class KnownJob:
    """A job of a run.

    Attributes:
        about: what its workload, or the scheduler, says of it.
        profile: what it does.
        number: the simulation's for it.
        registered: by the scheduler.
        state: where it is.
        final: how it ended, once it is over.
        hosts: those it was given.
        task: what it does on them; None: it has none yet.
        started_s: when it started.
        kill_asked: the scheduler asked for it to be killed.
        metadata: what the scheduler noted.
    """

    __slots__ = (
        "about",
        "final",
        "full_id",
        "hosts",
        "kill_asked",
        "metadata",
        "number",
        "profile",
        "registered",
        "started_s",
        "state",
        "task",
    )

    def __init__(self, about: Job, profile: Profile, number: int, *, registered: bool) -> None:
        self.about = about
        self.full_id = about.full_id
        self.profile = profile
        self.number = number
        self.registered = registered
        self.state: Literal["to_come", "waiting", "running", "over"] = "to_come"
        self.final: FinalState | None = None
        self.hosts: Sequence[int] = ()
        self.task: Task | None = None
        self.started_s = math.nan
        self.kill_asked = False
        self.metadata = ""

    @property
    def limit_s(self) -> float:
        """The most it may run; infinity: any time."""
        return math.inf if self.about.walltime_s is None else self.about.walltime_s

    def run_s(self, duration_s: float) -> float:
        """Return for how long it runs, for the simulation, if its task takes so long."""
        if isinstance(self.profile, Delay) and duration_s == self.limit_s:
            # Batsim kills a delay that is just as long as its walltime, but no computation.
            return math.nextafter(duration_s, math.inf)
        return duration_s

    def spec(self, submit_s: float) -> JobSpec:
        """Return what the simulation is to know of it; what it does is told where it starts."""
        duration_s = self.profile.delay_s if isinstance(self.profile, Delay) else 1.0
        return JobSpec(
            self.number, submit_s, self.run_s(duration_s), self.limit_s, self.about.res, "cores"
        )


class KnownJobs:
    """All jobs and profiles of a run.

    Attributes:
        jobs: by the simulation's number.
        profiles: by workload and name.
    """

    def __init__(self, workloads: Sequence[Workload]) -> None:
        self.profiles: dict[str, dict[str, Profile]] = {
            workload.name: dict(workload.profiles) for workload in workloads
        }
        self.jobs: list[KnownJob] = []
        self._by_id: dict[str, KnownJob] = {}
        for job in in_order(workloads):
            self._add(job, registered=False)

    def table(self) -> JobTable:
        """Return the jobs as the simulation's workload."""
        specs = [job.spec(job.about.submit_s) for job in self.jobs]
        return job_table(
            job_id=[spec.job_id for spec in specs],
            submit_s=[spec.submit_s for spec in specs],
            run_s=[spec.run_s for spec in specs],
            requested_s=[spec.requested_s for spec in specs],
            cores=[spec.cores for spec in specs],
        )

    def find(self, job_id: str) -> KnownJob:
        """Return a job by its full id.

        Raises:
            ValueError: there is none.
        """
        job = self._by_id.get(job_id)
        if job is None:
            raise ValueError(f"there is no job {job_id!r}; its id must be WORKLOAD!NAME")
        return job

    def profiles_of(self, job: KnownJob) -> Mapping[str, Profile]:
        """Return the profiles of its workload by name."""
        return self.profiles[job.about.workload]

    def register_profile(self, workload: str, name: str, raw: Mapping[str, Any]) -> None:
        """Add a profile; the same once more changes nothing.

        Raises:
            InputError: it can't be read.
            ValueError: there is another one of that name.
        """
        profile = parse_profile(name, raw, where="profile")
        there = self.profiles.setdefault(workload, {})
        before = there.get(name)
        if before is not None and before.raw != profile.raw:
            raise ValueError(f"workload {workload!r} has another profile {name!r}")
        check_sequences([profile], {**there, name: profile})
        there[name] = profile

    def register_job(self, job_id: str, raw: Mapping[str, Any]) -> KnownJob:
        """Add a job.

        Raises:
            InputError: it can't be read.
            ValueError: there is one of that id, or there is no such workload or profile.
        """
        workload, separator, name = job_id.partition("!")
        if not separator or not name:
            raise ValueError(f"the job's id is {job_id!r}; it must be WORKLOAD!NAME")
        if job_id in self._by_id:
            raise ValueError(f"there is a job {job_id!r} already")
        if workload not in self.profiles:
            raise ValueError(f"there is no workload {workload!r}: register a profile in it first")
        job = parse_job({**raw, "id": job_id}, workload)
        if job.profile not in self.profiles[workload]:
            raise ValueError(f"workload {workload!r} has no profile {job.profile!r}")
        return self._add(job, registered=True)

    def computes(self, job: KnownJob) -> bool:
        """Tell whether it does more than wait."""
        return _computes(job.profile, self.profiles_of(job))

    def _add(self, job: Job, *, registered: bool) -> KnownJob:
        profile = self.profiles[job.workload][job.profile]
        known = KnownJob(job, profile, len(self.jobs), registered=registered)
        self.jobs.append(known)
        self._by_id[known.full_id] = known
        return known


def _computes(profile: Profile, profiles: Mapping[str, Profile]) -> bool:
    if isinstance(profile, Composed):
        return any(_computes(profiles[name], profiles) for name in profile.sequence)
    return not isinstance(profile, Delay)
