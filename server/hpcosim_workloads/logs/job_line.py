"""Types of job lines and job profiles, in files and in scenarios, and their conversion to jobs."""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hpcosim_protocol import Placement
from hpcosim_workloads.errors import LineError
from hpcosim_workloads.table import (
    MAX_CORES,
    MAX_TIME_S,
    NAMED,
    PLACEMENTS,
    JobSpec,
    JobTable,
    coded,
    job_table,
)

RUN_TIME_OPS_PER_S = 1e9  # speed for which `JobTable.run_s` of a job with operations holds
MAX_OPS = MAX_TIME_S * RUN_TIME_OPS_PER_S
MAX_MB = 1e12
MAX_J = 1e18
MAX_NAME_LENGTH = 200

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Time = Annotated[float, Meta(ge=0, le=MAX_TIME_S)]
Duration = Annotated[float, Meta(gt=0, le=MAX_TIME_S)]
Operations = Annotated[float, Meta(gt=0, le=MAX_OPS)]
Megabytes = Annotated[float, Meta(ge=0, le=MAX_MB)]
Joules = Annotated[float, Meta(gt=0, le=MAX_J)]


class JobProfile(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True, gc=False):
    """Default values of the jobs that name this profile. A value of the job has priority.

    Attributes:
        cores: requested cores, one task per core.
        run_s: true run time, s.
        req_ops: operations of each task before division by `ipc`, instead of `run_s`. The run
            time follows from the speed of the node.
        ipc: instructions per cycle: a task has `ceil(req_ops / ipc)` operations. Default: 1.
        requested_s: requested run time, s. Default: `run_s`; required with `req_ops`.
        placement: placement, see `hpcosim_protocol.JobSubmitted`. Default: the scenario's.
        memory_mb: requested memory per task, MB. Default: unknown.
        memory_volume_mb: data that each task transfers to and from memory, MB. Default: 0.
        max_energy_j: upper limit of the job's estimated energy, J. Default: no limit.
    """

    cores: Annotated[int, Meta(gt=0, le=MAX_CORES)] | None = None
    run_s: Duration | None = None
    req_ops: Operations | None = None
    ipc: Annotated[float, Meta(gt=0, le=1e6)] | None = None
    requested_s: Duration | None = None
    placement: Placement | None = None
    memory_mb: Megabytes | None = None
    memory_volume_mb: Megabytes | None = None
    max_energy_j: Joules | None = None

    def __post_init__(self) -> None:
        if self.run_s is None:
            return
        for name in ("req_ops", "ipc"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"expected either run_s or req_ops (with ipc), got run_s and {name}"
                )


class JobLine(JobProfile, forbid_unknown_fields=True, frozen=True, kw_only=True, gc=False):
    """A job. `cores`, and `run_s` or `req_ops`, are required here or in the job's profile.

    Attributes:
        job_id: number of the job, unique in the workload.
        submit_s: submission time, s.
        profile: name of the profile with the default values of the job. Without any profile in
            the scenario, the name is a label.
        user: number of the user who submitted the job. Default: unknown.
        group: number of the user's group. Default: unknown.
        partition: number of the partition of the machine that the job was submitted to. It has no
            effect on the simulation. Default: unknown.
        deadline_s: time by which the job should have ended, s, on the clock of `submit_s` and after
            it. A window or another load moves the deadline with the submission. Default: none.
    """

    job_id: Number
    submit_s: Time
    profile: Annotated[str, Meta(max_length=MAX_NAME_LENGTH)] = ""
    user: Number | None = None
    group: Number | None = None
    partition: Number | None = None
    deadline_s: Time | None = None


NO_PROFILES: Mapping[str, JobProfile] = MappingProxyType({})
NO_PROFILE = JobProfile()

# Fields that a log states for each job; a profile of a log's jobs must not set them.
LOG_FIELDS = ("cores", "run_s", "req_ops", "ipc", "requested_s")


def log_field_message(field: str) -> str:
    """Return the error message for a field of `LOG_FIELDS` in a profile of a log's jobs."""
    allowed = ", ".join(name for name in JobProfile.__struct_fields__ if name not in LOG_FIELDS)
    return f"the log states {field} of each job; a profile of a log's jobs may set {allowed}"


class JobLines:
    """Builder of a job table from job lines.

    Args:
        placement: placement of jobs that state none and whose profile states none.
        profiles: job profiles by name.
    """

    def __init__(
        self, placement: Placement = "cores", profiles: Mapping[str, JobProfile] = NO_PROFILES
    ) -> None:
        self._placement = placement
        self._profiles = profiles
        self._jobs: dict[int, JobSpec] = {}

    def add(self, line: JobLine) -> None:
        """Add a job.

        Raises:
            LineError: the job number is not unique, the profile is unknown, or a required value
                is missing.
        """
        if line.job_id in self._jobs:
            raise LineError(f"a second job has the number {line.job_id}", "job_id")
        self._jobs[line.job_id] = self._job(line)

    def table(self) -> JobTable:
        """Return the jobs by submission time; jobs of the same time keep the order of the lines."""
        jobs = sorted(self._jobs.values(), key=lambda job: job.submit_s)
        columns: dict[str, Any] = {
            name: [getattr(job, name) for job in jobs] for name in JobSpec._fields
        }
        columns["profile"], profiles = coded(columns["profile"])
        names = {}
        for name in NAMED:
            columns[name], names[name] = coded(columns[name])
        requests = tuple(request for request in columns["request"] if request is not None)
        rows = iter(range(len(requests)))
        columns["request"] = [-1 if each is None else next(rows) for each in columns["request"]]
        columns["placement"] = [PLACEMENTS.index(name) for name in columns["placement"]]
        return job_table(profiles=profiles, names=names, requests=requests, **columns)

    def _job(self, line: JobLine) -> JobSpec:
        profile = self._profile_of(line)

        def value(name: str) -> Any:
            own = getattr(line, name)
            return getattr(profile, name) if own is None else own

        if value("cores") is None:
            raise _missing("cores", "cores", line)
        run_s, ops = _work(line, profile)
        if value("requested_s") is None and ops:
            raise _missing("requested_s", "requested_s, because it has req_ops", line)
        if line.deadline_s is not None and line.deadline_s <= line.submit_s:
            what = f"expected a time after submit_s, {line.submit_s:g} s, got {line.deadline_s:g} s"
            raise LineError(what, "deadline_s")
        return JobSpec(
            job_id=line.job_id,
            submit_s=line.submit_s,
            run_s=run_s,
            requested_s=value("requested_s") or run_s,
            cores=value("cores"),
            placement=value("placement") or self._placement,
            ops=ops,
            memory_mb=value("memory_mb") or 0.0,
            memory_volume_mb=value("memory_volume_mb") or 0.0,
            max_energy_j=value("max_energy_j") or math.inf,
            profile=line.profile,
            user="" if line.user is None else str(line.user),
            group="" if line.group is None else str(line.group),
            partition="" if line.partition is None else str(line.partition),
            deadline_s=math.inf if line.deadline_s is None else line.deadline_s,
        )

    def _profile_of(self, line: JobLine) -> JobProfile:
        if not line.profile:
            return NO_PROFILE
        if line.profile in self._profiles:
            return self._profiles[line.profile]
        if self._profiles:
            advice = nearest(line.profile, tuple(self._profiles))
            raise LineError(f"there is no profile {line.profile!r}; {advice}", "profile")
        if not line.profile.isprintable():
            what = f"expected a name of printable characters, got {line.profile!r}"
            raise LineError(what, "profile")
        return NO_PROFILE


def _work(line: JobLine, profile: JobProfile) -> tuple[float, float]:
    """Return the run time and the operations of each task; operations 0: the job has `run_s`."""
    source = profile if line.run_s is None and line.req_ops is None else line
    if source.run_s is not None:
        if line.ipc is not None:
            what = f"ipc requires req_ops, but profile {line.profile!r} has run_s"
            raise LineError(what, "ipc")
        return source.run_s, 0.0
    if source.req_ops is None:
        raise _missing("run_s", "run_s or req_ops", line)
    ipc = line.ipc if line.ipc is not None else profile.ipc
    ops = source.req_ops / (1.0 if ipc is None else ipc)
    if ops > MAX_OPS:
        raise LineError(f"req_ops / ipc is {ops:g}; it must be at most {MAX_OPS:g}", "ipc")
    ops = float(max(math.ceil(ops), 1))
    return ops / RUN_TIME_OPS_PER_S, ops


def _missing(field: str, what: str, line: JobLine) -> LineError:
    where = f"here or in profile {line.profile!r}" if line.profile else "here or in a profile"
    return LineError(f"job {line.job_id} needs {what}, {where}", field)


@functools.lru_cache(maxsize=256)  # every line of a file may have the same unknown profile
def nearest(name: str, known: tuple[str, ...]) -> str:
    """Return a hint for an unknown name: the nearest known name, or the known names."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]!r}?"
    more = ", ..." if len(known) > 10 else ""
    return f"expected {', '.join(map(repr, known[:10]))}{more}"
